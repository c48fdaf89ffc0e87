//===- VocabularyList.cpp ---------------------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "Readers/VocabularyList.h"
#include "Readers/ConfigRows.h"
#include "llvm/ADT/DenseSet.h"
#include "llvm/ADT/StringExtras.h"

using namespace llvm;

namespace culprit {

using Token = LooseJson::Token;

/// Entries in the head from which on an object of whole numbers is a
/// vocabulary: settings have fewer, and few of them are small numbers.
static constexpr size_t MinEntries = 200;

/// Walks the entries. Where \p Text is no such list or breaks off, the offset.
static std::optional<size_t>
walk(StringRef Text, function_ref<bool(StringRef, int64_t)> Each) {
  Text.consume_front("\xEF\xBB\xBF");
  LooseJson In(Text);
  if (In.next() != Token::Object)
    return In.offset();
  std::string Piece;
  for (;;) {
    Token T = In.next();
    if (T == Token::EndObject)
      return std::nullopt;
    if (T != Token::Key)
      return In.offset();
    Piece = In.text().str();
    int64_t Id;
    if (In.next() != Token::Number || In.text().getAsInteger(10, Id) ||
        Id < 0 || !Each(Piece, Id))
      return In.offset();
  }
}

bool isVocabularyList(StringRef Head) {
  DenseSet<uint64_t> Ids;
  bool Distinct = true;
  (void)walk(Head, [&](StringRef, int64_t Id) {
    // Ids of a vocabulary are dense; 2^24 is more than any has.
    Distinct &= Id < (1 << 24) && Ids.insert(static_cast<uint64_t>(Id)).second;
    return Distinct && Ids.size() < MinEntries;
  });
  return Distinct && Ids.size() >= MinEntries;
}

std::optional<size_t>
forEachEntry(StringRef Text, function_ref<void(StringRef, int64_t)> Each) {
  return walk(Text, [&](StringRef Piece, int64_t Id) {
    Each(Piece, Id);
    return true;
  });
}

Match VocabularyListReader::matches(const InputFile &File) const {
  return isVocabularyList(File.head()) ? Match::Certain : Match::No;
}

Error VocabularyListReader::read(InputFile &File, Source &Into) const {
  Expected<StringRef> Text = File.contents();
  if (!Text)
    return Text.takeError();
  int64_t Count = 0, Largest = -1;
  std::optional<size_t> Broken =
      forEachEntry(*Text, [&](StringRef, int64_t Id) {
        ++Count;
        Largest = std::max(Largest, Id);
      });
  // Half a vocabulary would look like the tokenizer of another model.
  if (Broken)
    return failure(Into.path() + ":" +
                       Twine(LineCounter(*Text).lineOf(*Broken)) +
                       ": breaks off behind piece " + Twine(Count),
                   "copy the file again and compare its size with the "
                   "original");
  ConfigRows Config(Into, "tokenizer.");
  Config.add("base_vocab_size", itostr(Count), 1);
  Config.add("vocab_size", itostr(Count), 1);
  Config.add("largest_id", itostr(Largest), 1);
  Config.finish();
  return Error::success();
}

} // namespace culprit
