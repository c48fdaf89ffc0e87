//===- WordForms.cpp --------------------------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "KB/WordForms.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringExtras.h"
#include <algorithm>
#include <array>

using namespace llvm;

namespace culprit {

std::vector<std::string> splitIdentifier(StringRef Name) {
  std::vector<std::string> Parts(1);
  for (size_t I = 0; I < Name.size(); ++I) {
    char C = Name[I];
    if (C == '_' || C == '.') {
      Parts.emplace_back();
      continue;
    }
    // A capital begins a part after a small letter (cudaError) or before one
    // when the part is an acronym (NCCLError).
    bool AfterSmall = I && isLower(Name[I - 1]);
    bool EndsAcronym = I && isUpper(Name[I - 1]) && I + 1 < Name.size() &&
                       isLower(Name[I + 1]) && I + 2 < Name.size() &&
                       isLower(Name[I + 2]);
    if (isUpper(C) && (AfterSmall || EndsAcronym))
      Parts.emplace_back();
    Parts.back() += toLower(C);
  }
  // `NaNs` and `PyTorch` are one word; so is what would leave crumbs.
  bool HasMarks = Name.contains('_') || Name.contains('.');
  bool Crumbs =
      any_of(Parts, [](const std::string &P) { return P.size() < 3; });
  if (!HasMarks && Crumbs && Parts.size() <= 2)
    return {Name.lower()};
  llvm::erase_if(Parts, [](const std::string &P) { return P.size() < 2; });
  if (Parts.empty())
    Parts.push_back(Name.lower());
  return Parts;
}

static bool hasVowel(StringRef S) {
  return S.find_first_of("aeiouy") != StringRef::npos;
}

std::string stem(StringRef W) {
  std::string S = W.str();
  if (W.size() < 4 || any_of(W, isDigit) || !isAlpha(W.front()))
    return S;
  auto Drop = [&](StringRef Suffix, size_t Keep) {
    if (!StringRef(S).ends_with(Suffix) || S.size() < Suffix.size() + Keep ||
        !hasVowel(StringRef(S).drop_back(Suffix.size())))
      return false;
    S.resize(S.size() - Suffix.size());
    return true;
  };
  if (StringRef(S).ends_with("ies") && S.size() > 4)
    S.replace(S.size() - 3, 3, "y");
  else if (StringRef(S).ends_with("sses"))
    S.resize(S.size() - 2);
  else if (S.back() == 's' && !StringRef(S).ends_with("ss") &&
           !StringRef(S).ends_with("us") && !StringRef(S).ends_with("is"))
    S.pop_back();
  Drop("ly", 4);
  if (Drop("ing", 3) || Drop("ed", 3)) {
    size_t N = S.size();
    if (N > 3 && S[N - 1] == S[N - 2] && !StringRef("lsz").contains(S[N - 1]))
      S.pop_back();
  } else if (!Drop("ation", 4) && !Drop("ator", 4) && !Drop("ence", 4) &&
             !Drop("ment", 4)) {
    if ((StringRef(S).ends_with("tion") || StringRef(S).ends_with("sion")) &&
        S.size() > 6)
      S.resize(S.size() - 3);
  }
  if (S.size() > 4 && S.back() == 'e')
    S.pop_back();
  if (S.size() > 6 && StringRef(S).ends_with("at"))
    S.resize(S.size() - 2);
  if (S.size() > 5 && StringRef(S).ends_with("is"))
    S.back() = 'z'; // British spelling.
  if (S.size() > 4 && S.back() == 'y')
    S.back() = 'i';
  return S;
}

bool isStopWord(StringRef W) {
  static constexpr std::array<StringRef, 132> Words = {
      "a",        "about",  "after", "again",   "all",    "almost",  "also",
      "although", "always", "am",    "an",      "and",    "any",     "are",
      "as",       "at",     "be",    "because", "been",   "before",  "being",
      "both",     "but",    "by",    "can",     "cannot", "could",   "did",
      "do",       "does",   "doing", "done",    "each",   "even",    "ever",
      "every",    "for",    "from",  "get",     "gets",   "getting", "give",
      "gives",    "got",    "had",   "has",     "have",   "having",  "he",
      "help",     "here",   "how",   "i",       "if",     "in",      "into",
      "is",       "it",     "its",   "just",    "like",   "made",    "make",
      "makes",    "many",   "me",    "more",    "most",   "much",    "my",
      "no",       "not",    "now",   "of",      "on",     "one",     "only",
      "onto",     "or",     "other", "our",     "out",    "over",    "please",
      "s",        "say",    "says",  "see",     "seem",   "seems",   "set",
      "she",      "should", "since", "so",      "some",   "still",   "such",
      "t",        "than",   "that",  "the",     "their",  "them",    "then",
      "there",    "these",  "they",  "this",    "those",  "though",  "through",
      "to",       "too",    "try",   "trying",  "under",  "until",   "up",
      "use",      "used",   "uses",  "using",   "very",   "was"};
  static constexpr std::array<StringRef, 24> More = {
      "apparently", "exactly", "info",    "really", "thing", "things",
      "warning",    "we",      "were",    "what",   "when",  "where",
      "whether",    "which",   "while",   "who",    "why",   "will",
      "with",       "within",  "would",   "yet",    "you",   "your"};
  return W.size() <= 10 &&
         (std::binary_search(Words.begin(), Words.end(), W) ||
          std::binary_search(More.begin(), More.end(), W));
}

bool isTellingNumber(StringRef Number) {
  return count_if(Number, isDigit) >= 3 || Number.starts_with("-");
}

void forEachHanPair(StringRef Run, function_ref<void(StringRef)> Each) {
  SmallVector<size_t, 32> Starts;
  for (size_t I = 0; I < Run.size(); ++I)
    if ((static_cast<unsigned char>(Run[I]) & 0xC0) != 0x80)
      Starts.push_back(I);
  Starts.push_back(Run.size());
  for (size_t I = 0; I + 2 < Starts.size(); ++I)
    Each(Run.slice(Starts[I], Starts[I + 2]));
}

} // namespace culprit
