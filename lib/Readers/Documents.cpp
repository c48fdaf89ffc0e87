//===- Documents.cpp --------------------------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "Readers/Documents.h"
#include "Readers/DocumentRows.h"
#include "Readers/DocumentShape.h"
#include "Readers/TextLines.h"
#include "llvm/ADT/StringExtras.h"

using namespace llvm;

namespace culprit {

using Token = LooseJson::Token;

/// Arrays of token ids tell nothing that is kept.
static constexpr StringLiteral Skipped[] = {"input_ids", "labels",
                                            "attention_mask", "embedding",
                                            "tokens"};

/// A line that is longer is no record.
static constexpr size_t MaxLine = size_t(64) << 20;

namespace {
/// The shapes of the first records.
struct Shapes {
  unsigned Records = 0, Texts = 0, Turns = 0, Pairs = 0, Splits = 0;

  void add(DocumentShape Shape, bool Split) {
    ++Records;
    Texts += Shape == DocumentShape::Text;
    Turns += Shape == DocumentShape::Turns;
    Pairs += Shape == DocumentShape::Pair;
    Splits += Split;
  }
};
} // namespace

static Shapes shapesOfLines(StringRef Head, bool Whole) {
  Shapes Out;
  LooseTree Tree(Skipped);
  StringRef Lines = completeLines(Head, Whole);
  if (Lines.empty()) { // the first record is longer than the head
    Out.add(documentShapeOfStart(Head), false);
    return Out;
  }
  forEachLine(Lines, [&](StringRef Line, int64_t) {
    Line = Line.trim();
    if (Line.empty())
      return true;
    LooseJson In(Line);
    if (Tree.read(In, Line) && Line.drop_front(In.end()).trim().empty())
      Out.add(documentShape(Tree.root()),
              !splitOfWord(Tree.root()["split"].text()).empty());
    else
      ++Out.Records;
    return Out.Records < 20;
  });
  return Out;
}

static Shapes shapesOfList(StringRef Head) {
  Shapes Out;
  LooseTree Tree(Skipped);
  LooseJson In(Head);
  (void)In.next();
  while (Out.Records < 20) {
    Token T = In.next();
    if (T != Token::Object)
      break;
    const size_t Begin = In.offset();
    if (!Tree.read(In, Head, T)) {
      if (Out.Records == 0)
        Out.add(documentShapeOfStart(Head.drop_front(Begin)), false);
      break;
    }
    Out.add(documentShape(Tree.root()),
            !splitOfWord(Tree.root()["split"].text()).empty());
  }
  return Out;
}

Match DocumentsReader::matches(const InputFile &File) const {
  StringRef Head = withoutMark(File.head()).ltrim();
  if (!Head.starts_with("{") && !Head.starts_with("["))
    return Match::No;
  const bool Whole = File.head().size() < InputFile::HeadBytes;
  const bool List = Head.starts_with("[");
  const Shapes Seen = List ? shapesOfList(Head) : shapesOfLines(Head, Whole);
  const unsigned Any = Seen.Texts + Seen.Turns + Seen.Pairs;
  if (Any == 0 || Any * 2 < Seen.Records)
    return Match::No;
  const bool Named = isNamedLikeData(File.path()) ||
                     Seen.Splits * 2 > Seen.Records;
  if (Named)
    return Match::Certain;
  // One object may be anything; so may pairs without a name.
  if (Seen.Records == 1 && Whole && !List)
    return Match::No;
  if (Seen.Turns * 2 > Seen.Records)
    return Match::Certain;
  return Seen.Texts * 2 > Seen.Records ? Match::Likely : Match::No;
}

namespace {
/// The pass over one file.
class DocumentPass {
public:
  explicit DocumentPass(Source &S, uint64_t Budget)
      : S(S), Tree(Skipped), Rows(S, Budget) {}

  /// Takes the next piece of the lines of a file; false when it is none.
  bool piece(StringRef Bytes);
  void list(StringRef Text);
  Error finish();

private:
  void line(StringRef Line);
  void broken(int64_t Line, const char *Why);

  Source &S;
  LooseTree Tree;
  DocumentRows Rows;
  std::string Carry; ///< The begin of a line whose end is yet to come.
  int64_t Number = 0;
  size_t Broken = 0, Foreign = 0;
  bool TooLong = false;
};
} // namespace

void DocumentPass::broken(int64_t Line, const char *Why) {
  // Of a damaged file the first places tell enough.
  if (++Broken <= 3)
    S.warn(S.path() + ":" + Twine(Line) + ": no record: " + Why,
           "the line was skipped, " + Twine(Rows.rows()) +
               " before it were read; delete it or repair it");
}

void DocumentPass::line(StringRef Line) {
  if (++Number == 1)
    Line = withoutMark(Line);
  Line = Line.trim();
  if (Line.empty())
    return;
  LooseJson In(Line);
  if (!Tree.read(In, Line) || !Line.drop_front(In.end()).trim().empty())
    return broken(Number, Tree.why() ? Tree.why() : "something follows it");
  Foreign += !Rows.add(Tree.root(), Number);
}

bool DocumentPass::piece(StringRef Bytes) {
  while (!Bytes.empty()) {
    const size_t End = Bytes.find('\n');
    StringRef Part = Bytes.take_front(End);
    if (Carry.size() + Part.size() > MaxLine) {
      TooLong = true;
      return false;
    }
    if (End == StringRef::npos) {
      Carry += Part;
      return true;
    }
    if (Carry.empty()) {
      line(Part);
    } else {
      Carry += Part;
      line(Carry);
      Carry.clear();
    }
    Bytes = Bytes.drop_front(End + 1);
  }
  return true;
}

void DocumentPass::list(StringRef Text) {
  LineCounter Lines(Text);
  LooseJson In(Text);
  Token T = In.next();
  for (T = In.next(); T != Token::EndArray; T = In.next()) {
    const int64_t Line = Lines.lineOf(In.offset());
    if (T == Token::Error || T == Token::End || !Tree.read(In, Text, T)) {
      ++Broken;
      S.warn(S.path() + ":" + Twine(Line) + ": the list breaks off: " +
                 (In.error() ? In.error()
                  : Tree.why() ? Tree.why()
                               : "its end is missing"),
             "the " + Twine(Rows.rows()) +
                 " documents before it were read; repair the file");
      return;
    }
    Foreign += !Rows.add(Tree.root(), Line);
  }
}

Error DocumentPass::finish() {
  if (!Carry.empty() && !TooLong)
    line(Carry);
  Rows.finish();
  if (TooLong)
    S.warn(S.path() + ":" + Twine(Number + 1) +
               ": a line of more than 64 MiB is no record",
           "the " + Twine(Rows.rows()) + " documents before it were read");
  if (Broken > 3)
    S.warn(S.path() + ": " + Twine(Broken - 3) + " more lines are no records");
  if (Foreign)
    S.warn(S.path() + ": " + Twine(Foreign) +
               " records have no text and were left out");
  if (Rows.rows() == 0)
    return failure(S.path() + ": none of its records has a text",
                   "a record is an object with \"text\", \"messages\" or a "
                   "question and its answer");
  return Error::success();
}

Error DocumentsReader::read(InputFile &File, Source &Into) const {
  DocumentPass Pass(Into, TextBudget::of(File.path(), File.diskSize()));
  if (withoutMark(File.head()).ltrim().starts_with("[")) {
    Expected<StringRef> Text = File.contents();
    if (!Text)
      return Text.takeError();
    Pass.list(withoutMark(*Text));
  } else if (Error E = File.stream(
                 [&](StringRef Bytes) { return Pass.piece(Bytes); })) {
    return E;
  }
  return Pass.finish();
}

} // namespace culprit
