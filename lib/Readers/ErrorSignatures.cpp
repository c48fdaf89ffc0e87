//===- ErrorSignatures.cpp --------------------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "Readers/ErrorSignatures.h"
#include "Readers/TextLines.h"
#include "Support/Glob.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringMap.h"

using namespace llvm;

namespace culprit {

namespace {
enum class Rule { Plain, If, Count };

struct Signature {
  Rule Kind;
  StringRef Name, Type, Code, Phrase, Glob;
};

struct Lookalike {
  StringRef Name, Phrase, Glob;
};

struct XidMeaning {
  unsigned Code;
  StringRef Name;
};
} // namespace

static constexpr Signature Signatures[] = {
#define ERROR(NAME, TYPE, CODE, PHRASE)                                        \
  {Rule::Plain, NAME, TYPE, CODE, PHRASE, ""},
#define ERROR_IF(NAME, TYPE, CODE, PHRASE, GLOB)                               \
  {Rule::If, NAME, TYPE, CODE, PHRASE, GLOB},
#define ERROR_COUNT(NAME, TYPE, CODE, PHRASE)                                  \
  {Rule::Count, NAME, TYPE, CODE, PHRASE, ""},
#include "Readers/ErrorSignatures.def"
};

static constexpr Lookalike Lookalikes[] = {
#define LOOKALIKE(NAME, PHRASE, GLOB) {NAME, PHRASE, GLOB},
#include "Readers/ErrorSignatures.def"
};

static constexpr XidMeaning Xids[] = {
#define XID(CODE, NAME) {CODE, NAME},
#include "Readers/ErrorSignatures.def"
};

/// Phrases behind those of the signatures in the finder: the driver's word,
/// then what scanLine() sorts.
static constexpr StringLiteral Triggers[] = {
    "xid",
    "loss",
    "accuracy",
    "acc",
    "ppl",
    "perplexity",
    "reward",
    "bpb",
    "skipped=",       // DeepSpeed's
    "samplespersec=", // timer
    "(epoch: ",       // CycleGAN's lines, whose losses are called D_A, cycle_A
    "traceback (most recent call last)",
    "overflow! rank",
    "attempted loss scale",
    "reducing dynamic loss scale",
    "total optimization steps",
    "num epochs",
    "sxid", // of an NVSwitch
    "during handling of the above exception",
    "the above exception was the direct cause"};
static constexpr unsigned SXidTrigger = 17, ChainTrigger = 18;

namespace {
/// The phrases, each once, and the signatures that begin with it.
struct Phrases {
  std::vector<StringRef> Texts;
  std::vector<SmallVector<const Signature *, 2>> Of;
  unsigned FirstTrigger = 0;

  Phrases() {
    StringMap<unsigned> Seen;
    for (const Signature &S : Signatures) {
      auto [It, New] = Seen.try_emplace(S.Phrase, Texts.size());
      if (New) {
        Texts.push_back(S.Phrase);
        Of.emplace_back();
      }
      Of[It->second].push_back(&S);
    }
    FirstTrigger = Texts.size();
    Texts.insert(Texts.end(), std::begin(Triggers), std::end(Triggers));
  }
};
} // namespace

static const Phrases &phrases() {
  static const Phrases P; // on first use: nothing is constructed before main
  return P;
}

static const PhraseFinder &finder() {
  static const PhraseFinder F(phrases().Texts);
  return F;
}

void scanLine(StringRef Text, LineScan &Out) {
  Out.Hits.clear();
  Out.Other = Out.Metric = Out.Traceback = false;
  Out.Overflow = Out.Plan = Out.Chain = false;
  finder().find(Text, Out.Hits);
  for (const PhraseFinder::Hit &H : Out.Hits) {
    Out.Other |= H.Phrase < phrases().FirstTrigger + 1 ||
                 H.Phrase >= phrases().FirstTrigger + 11;
    if (H.Phrase <= phrases().FirstTrigger)
      continue;
    unsigned T = H.Phrase - phrases().FirstTrigger;
    Out.Metric |= T < 11;
    Out.Traceback |= T == 11;
    Out.Overflow |= T >= 12 && T <= 14;
    Out.Plan |= T >= 15 && T < SXidTrigger;
    Out.Chain |= T >= ChainTrigger;
  }
}

/// Whether a phrase does not end inside a word: "error 2" is not in
/// "error 209", nor an enum name in the name of a variable.
static bool atWordLimits(StringRef Text, const PhraseFinder::Hit &H) {
  if (H.Begin > 0 && isWordChar(Text[H.Begin]) && isWordChar(Text[H.Begin - 1]))
    return false;
  return H.End >= Text.size() || !isWordChar(Text[H.End - 1]) ||
         !isWordChar(Text[H.End]);
}

static bool endsWithWord(StringRef Text, StringRef Word) {
  return Text.ends_with_insensitive(Word) &&
         (Text.size() == Word.size() ||
          !isWordChar(Text[Text.size() - Word.size() - 1]));
}

/// Whether the words in front of a phrase deny it or warn of it: "no NaN
/// detected", "to avoid CUDA out of memory".
static bool deniedBefore(StringRef Before) {
  Before = Before.take_back(40);
  for (unsigned Words = 0; Words != 3; ++Words) {
    Before = Before.rtrim(" \t'\"`(*");
    for (StringRef Denial : {"no",           "without",
                             "avoid",        "avoids",
                             "avoiding",     "prevent",
                             "prevents",     "preventing",
                             "handle",       "handles",
                             "handling",     "if you see",
                             "if you get",   "if you encounter",
                             "in case of",   "in the case of",
                             "risk of",      "not",
                             "never",        "ignore",
                             "ignores",      "catch",
                             "chance of",    "check for",
                             "checking for", "lead to",
                             "result in",    "cause",
                             "when",         "whenever",
                             "if",           "retry on",
                             "restart on",   "against"})
      if (endsWithWord(Before, Denial))
        return true;
    bool Filler = false;
    for (StringRef Word : {"a", "an", "any", "the", "possible", "potential",
                           "runtimeerror:", "error:"})
      if (endsWithWord(Before, Word)) {
        Before = Before.drop_back(Word.size());
        Filler = true;
        break;
      }
    if (!Filler)
      return false;
  }
  return false;
}

/// Whether what follows counts the phrase as zero or sets it as an option:
/// "nan detected: 0", "cuda out of memory retries: false", "... 0 times".
static bool deniedAfter(StringRef After) {
  After = After.ltrim("'\"`)");
  if (After.ltrim().starts_with("0 times"))
    return true;
  for (StringRef Noun :
       {" errors", " error", " events", " count", " retries", " warnings", "s"})
    if (After.consume_front_insensitive(Noun))
      break;
  StringRef Value = After.ltrim();
  if (!Value.consume_front(":") && !Value.consume_front("="))
    return false;
  StringRef Rest = Value.ltrim();
  Value = Rest.take_while(
      [](char C) { return isWordChar(C) || C == '/' || C == '.'; });
  if (Value == "0")
    return true;
  // "cannot open: No such file" is no setting.
  Rest = Rest.drop_front(Value.size());
  if (!Rest.empty() && !StringRef(",;)]}|'\"").contains(Rest[0]))
    return false;
  for (StringRef Off :
       {"false", "none", "null", "off", "no", "disabled", "n/a", "true"})
    if (Value.equals_insensitive(Off))
      return true;
  return false;
}

/// "0 CUDA out of memory errors".
static bool countedZero(StringRef Before, StringRef After) {
  if (!endsWithWord(Before.rtrim(), "0") &&
      !endsWithWord(Before.rtrim(), "zero"))
    return false;
  for (StringRef Noun : {" error", " event", " warning", " occurrence", "s "})
    if (After.starts_with_insensitive(Noun))
      return true;
  return false;
}

/// An element of a printed list of texts to look for: ["CUDA out of memory",
/// 'NCCL timeout']; or a term in a manual: `CUDA out of memory`.
static bool quotedAlone(StringRef Before, StringRef After) {
  if (Before.empty() || After.empty())
    return false;
  char Quote = Before.back();
  if (Quote == '`') // but for what a kernel's assertion quotes
    return !Before.drop_back().rtrim().ends_with_insensitive("assertion");
  if (!StringRef("'\"").contains(Quote))
    return false;
  Before = Before.drop_back().rtrim();
  return Before.ends_with("[") || Before.ends_with(",");
}

static bool isMention(StringRef Text, const PhraseFinder::Hit &H) {
  StringRef Before = Text.take_front(H.Begin), After = Text.drop_front(H.End);
  return deniedBefore(Before) || deniedAfter(After) ||
         countedZero(Before, After) || quotedAlone(Before, After);
}

static bool countIsZero(StringRef After) {
  After = After.ltrim(" \t:=");
  StringRef Digits = After.take_while(isDigit);
  return Digits.empty() || Digits.ltrim('0').empty();
}

/// Of a line of many MB so many phrases are looked at, and so much text on
/// either side of each.
static constexpr size_t MaxHits = 256, BytesBeside = 32 * 1024;

static bool accepts(const Signature &S, StringRef Text, StringRef Lower,
                    const PhraseFinder::Hit &H, bool Exception) {
  if (!atWordLimits(Text, H))
    return false;
  // What a phrase is asked for stands beside it.
  Lower = Lower.slice(H.Begin - std::min(H.Begin, BytesBeside),
                      H.End + BytesBeside);
  if (S.Kind == Rule::If && !globMatch(S.Glob, Lower))
    return false;
  if (S.Kind == Rule::Count && countIsZero(Text.drop_front(H.End)))
    return false;
  for (const Lookalike &L : Lookalikes)
    if (L.Name == S.Name && L.Phrase == S.Phrase && globMatch(L.Glob, Lower))
      return false;
  return Exception || !isMention(Text, H);
}

/// "Xid 48, 63, 64 and 79" lists codes; no event does.
static bool listsCodes(StringRef After) {
  StringRef Rest = After.ltrim();
  for (StringRef Link : {",", "/", "and ", "or "})
    if (Rest.consume_front(Link)) {
      Rest = Rest.ltrim();
      StringRef Digits = Rest.take_while(isDigit);
      Rest = Rest.drop_front(Digits.size());
      return !Digits.empty() && Digits.size() < 4 &&
             (Rest.empty() || !isWordChar(Rest[0]));
    }
  return false;
}

/// Where the address of a device ends, which is no longer than this.
static size_t endOfAddress(StringRef Text) {
  return Text.take_front(64).take_until([](char C) { return C == ')'; }).size();
}

/// "NVRM: Xid (PCI:0000:9b:00): 79, pid=...", "Xid 79", "XID: 79".
static std::optional<ErrorMatch> findXid(StringRef Text,
                                         const PhraseFinder::Hit &H) {
  if (!atWordLimits(Text, H))
    return std::nullopt;
  StringRef Rest = Text.drop_front(H.End).ltrim();
  bool Driver = Rest.consume_front("(");
  if (Driver)
    Rest = Rest.drop_front(endOfAddress(Rest)).ltrim(')');
  Rest = Rest.ltrim(" :=#");
  for (StringRef Word : {"error", "event", "code"})
    if (Rest.consume_front_insensitive(Word))
      Rest = Rest.ltrim(" :=#");
  StringRef Digits = Rest.take_while(isDigit);
  unsigned Code = 0;
  if (Digits.getAsInteger(10, Code) || Code == 0 || Code > 999)
    return std::nullopt;
  // What is not the driver's own line may speak of codes in general.
  StringRef Before = Text.take_front(H.Begin);
  StringRef After = Rest.drop_front(Digits.size());
  if (!Driver && (deniedBefore(Before) || endsWithWord(Before.rtrim(), "on") ||
                  listsCodes(After) || quotedAlone(Before, After)))
    return std::nullopt;
  StringRef Signature = "xid";
  for (const XidMeaning &X : Xids)
    if (X.Code == Code)
      Signature = X.Name;
  return ErrorMatch{Signature, "Xid", utostr(Code)};
}

/// "nvidia-nvswitch3: SXid (PCI:0000:05:00.0): 20034, Fatal, Link 30 LTSSM
/// Fault Up". What a switch corrected or survived is "Non-fatal" and kept
/// without a signature; the lines with the registers belong to the one before.
static std::optional<ErrorMatch> findSXid(StringRef Text,
                                          const PhraseFinder::Hit &H) {
  if (!atWordLimits(Text, H))
    return std::nullopt;
  StringRef Rest = Text.drop_front(H.End).ltrim();
  if (!Rest.consume_front("("))
    return std::nullopt;
  Rest = Rest.drop_front(endOfAddress(Rest)).ltrim(") :");
  StringRef Digits = Rest.take_while(isDigit);
  unsigned Code = 0;
  if (Digits.getAsInteger(10, Code) || Code == 0 || Code > 99999)
    return std::nullopt;
  Rest = Rest.drop_front(Digits.size());
  if (Rest.starts_with(", Data {") || Rest.starts_with(", Severity"))
    return std::nullopt;
  return ErrorMatch{Rest.contains_insensitive("non-fatal") ? "" : "nvlink",
                    "SXid", utostr(Code)};
}

std::optional<ErrorMatch> findError(StringRef Text, const LineScan &Scan,
                                    bool Exception) {
  if (Scan.Hits.empty())
    return std::nullopt;
  const Signature *Best = nullptr;
  std::string Lower;
  unsigned Xid = phrases().FirstTrigger;
  for (const PhraseFinder::Hit &H : ArrayRef(Scan.Hits).take_front(MaxHits)) {
    // The driver's own number says more than any text beside it.
    if (H.Phrase == Xid)
      if (std::optional<ErrorMatch> Event = findXid(Text, H))
        return Event;
    if (H.Phrase == Xid + SXidTrigger) {
      if (std::optional<ErrorMatch> Event = findSXid(Text, H))
        return Event;
      return std::nullopt; // its registers
    }
    if (H.Phrase >= Xid)
      continue;
    if (Lower.empty())
      Lower = Text.lower();
    for (const Signature *S : phrases().Of[H.Phrase])
      if ((!Best || S < Best) && accepts(*S, Text, Lower, H, Exception))
        Best = S;
  }
  if (!Best)
    return std::nullopt;
  return ErrorMatch{Best->Name, Best->Type, Best->Code.str()};
}

std::optional<ErrorMatch> findError(StringRef Text, bool Exception) {
  LineScan Scan;
  scanLine(Text, Scan);
  return findError(Text, Scan, Exception);
}

} // namespace culprit
