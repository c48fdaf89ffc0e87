//===- GenerationRecords.cpp ------------------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "Readers/GenerationRecords.h"
#include "Readers/GenerationShape.h"
#include "Readers/GenerationStreams.h"
#include "Readers/JsonRecords.h"
#include "Readers/TextLines.h"
#include "llvm/ADT/StringExtras.h"

using namespace llvm;

namespace culprit {

using Token = LooseJson::Token;

/// Whether \p Line belongs to server-sent events beside their data.
static bool isEventFrame(StringRef Line) {
  return Line.starts_with("event:") || Line.starts_with("id:") ||
         Line.starts_with("retry:") || Line.starts_with(":");
}

namespace {
enum class RecordForm {
  Lines, ///< A record a line, or events of a stream.
  Values ///< A list, or values of several lines behind each other.
};
} // namespace

static RecordForm recordFormOf(StringRef Head) {
  Head = withoutMark(Head).ltrim();
  if (Head.starts_with("data:") || isEventFrame(Head))
    return RecordForm::Lines;
  StringRef Line = Head.take_until([](char C) { return C == '\n'; });
  // A record that is longer than the head has its line for itself.
  if (Line.size() == Head.size())
    return Head.starts_with("[") ? RecordForm::Values : RecordForm::Lines;
  LooseJson In(Line);
  Token First = In.next();
  bool Complete = (First == Token::Object || First == Token::Array) &&
                  In.skip(First) &&
                  Line.drop_front(In.end()).trim().empty();
  return Complete ? RecordForm::Lines : RecordForm::Values;
}

/// Metrics that keep a sample of text beside the loss.
static bool isMetrics(StringRef Text) {
  RecordShape Shape = shapeOf(Text);
  return Shape.Object && Shape.Step && Shape.LossLike;
}

Match GenerationRecordsReader::matches(const InputFile &File) const {
  StringRef Head = withoutMark(File.head()).ltrim();
  bool Events = Head.starts_with("data:") || isEventFrame(Head);
  if (!Events && !Head.starts_with("{") && !Head.starts_with("["))
    return Match::No;
  size_t End;
  if (recordFormOf(Head) == RecordForm::Values) {
    GenerationShape Shape = generationShape(Head, End);
    if (Shape == GenerationShape::Server)
      return Match::Certain;
    // A lone object with two usual names may be a configuration.
    if (Shape == GenerationShape::Possible)
      return Head.starts_with("[") ? Match::Likely : Match::No;
    return Shape == GenerationShape::Clear && !isMetrics(Head) ? Match::Likely
                                                               : Match::No;
  }
  unsigned Lines = 0, Server = 0, Named = 0, Clear = 0;
  bool Whole = File.head().size() < InputFile::HeadBytes;
  // The first line may be longer than the head.
  StringRef Text = Head.contains('\n') ? completeLines(Head, Whole) : Head;
  forEachLine(Text, [&](StringRef Line, int64_t) {
    StringRef Data = withoutEventPrefix(Line.trim());
    if (Data.empty() || isEventFrame(Data) || Data == "[DONE]")
      return true;
    GenerationShape Shape = generationShape(Data, End);
    ++Lines;
    Server += Shape == GenerationShape::Server;
    bool Metrics = Shape != GenerationShape::Server && isMetrics(Data);
    Named += Shape != GenerationShape::None && !Metrics;
    Clear += Shape == GenerationShape::Clear && !Metrics;
    return Lines < 20;
  });
  if (Server * 2 >= Lines && Server)
    return Match::Certain;
  if (Lines == 1)
    return Clear ? Match::Likely : Match::No;
  return Named * 2 >= Lines && Named ? Match::Likely : Match::No;
}

namespace {
/// The pass over one file.
class GenerationPass {
public:
  GenerationPass(Source &S, uint64_t Bytes)
      : S(S), Tree(Skipped), Out(S, Bytes) {}

  /// Takes the lines of the next \p Piece of the file.
  void lines(StringRef Piece);
  /// Takes the values of the whole \p Text.
  void values(StringRef Text);
  Error finish();

private:
  void records(LooseValue Root, bool Event, int64_t Line);
  void broken(int64_t Line, const char *Why, bool Last);

  static constexpr StringLiteral Skipped[] = {"bytes", "embedding", "context",
                                              "output_ids", "input_ids"};
  Source &S;
  LooseTree Tree;
  GenerationStreams Out;
  size_t Read = 0, Broken = 0, Foreign = 0;
  int64_t LastLine = 0, Next = 1;
  /// A line that is no record: the last one breaks off, the others are broken.
  std::optional<std::pair<int64_t, const char *>> Unread;
};
} // namespace

constexpr StringLiteral GenerationPass::Skipped[];

/// A line may hold a list, as TGI answers.
void GenerationPass::records(LooseValue Root, bool Event, int64_t Line) {
  auto One = [&](LooseValue V) {
    (Out.record(V, Event, Line) ? Read : Foreign) += 1;
  };
  if (!Root.isArray())
    return One(Root);
  for (LooseValue V = Root.first(); V; V = V.next())
    One(V);
}

void GenerationPass::broken(int64_t Line, const char *Why, bool Last) {
  // Of a damaged file the first places tell enough.
  if (++Broken > 3)
    return;
  std::string Rows = utostr(Read) + (Read == 1 ? " record" : " records");
  if (Last)
    S.warn(S.path() + ":" + Twine(Line) + ": the last record breaks off: " +
               Why,
           "the writer was probably killed; the " + Rows +
               " before it were read");
  else
    S.warn(S.path() + ":" + Twine(Line) + ": no record: " + Why,
           "the line was skipped, " + Rows +
               " before it were read; delete it or repair it");
}

void GenerationPass::lines(StringRef Piece) {
  auto Each = [&](StringRef Line, int64_t Number) {
    Line = Line.trim();
    LastLine = Number;
    StringRef Data = withoutEventPrefix(Line);
    if (Data.empty() || isEventFrame(Line))
      return true;
    if (Unread) {
      broken(Unread->first, Unread->second, false);
      Unread.reset();
    }
    if (Data == "[DONE]") {
      Out.done();
      return true;
    }
    LooseJson In(Data);
    if (Tree.read(In, Data) && Data.drop_front(In.end()).trim().empty())
      records(Tree.root(), Data.size() != Line.size(), Number);
    else
      Unread.emplace(Number, Tree.why() ? Tree.why() : "something follows it");
    return true;
  };
  Next = forEachLine(Piece, Each, Next);
}

void GenerationPass::values(StringRef Text) {
  LineCounter Lines(Text);
  StringRef Rest = Text;
  while (!Rest.ltrim().empty()) {
    LooseJson In(Rest);
    size_t Base = Rest.begin() - Text.begin();
    auto Line = [&](size_t Offset) {
      return LastLine = Lines.lineOf(Base + Offset);
    };
    Token T = In.next();
    bool List = T == Token::Array;
    if (List)
      T = In.next();
    while (T != Token::EndArray && T != Token::End && T != Token::Error) {
      int64_t At = Line(In.offset());
      if (!Tree.read(In, Rest, T))
        break;
      records(Tree.root(), false, At);
      if (!List)
        break;
      T = In.next();
    }
    if (In.error() || (Tree.why() && T != Token::EndArray)) {
      // Behind a break in the middle of values nothing is certain.
      const char *Why = In.error() ? In.error() : Tree.why();
      return broken(Line(In.offset()), Why, true);
    }
    Rest = Rest.drop_front(In.end()).ltrim(" \t\r\n,");
  }
}

Error GenerationPass::finish() {
  if (Unread)
    broken(Unread->first, Unread->second, true);
  Out.finish();
  if (Broken > 3)
    S.warn(S.path() + ": " + Twine(Broken - 3) + " more of " +
           Twine(LastLine) + " lines are no records");
  if (Foreign && Out.rows().requests())
    S.warn(S.path() + ": " + Twine(Foreign) +
               (Foreign == 1 ? " record has" : " records have") +
               " neither a prompt nor an answer",
           "they were skipped");
  if (!Out.rows().requests())
    return failure(S.path() + ": none of its records has a prompt or an "
                              "answer",
                   "a record is an object such as {\"prompt\": \"...\", "
                   "\"response\": \"...\"}");
  return Error::success();
}

Error GenerationRecordsReader::read(InputFile &File, Source &Into) const {
  GenerationPass Pass(Into, File.expectedSize());
  if (recordFormOf(File.head()) == RecordForm::Lines) {
    if (Error E = File.lines([&](StringRef Piece) {
          Pass.lines(Piece);
          return true;
        }))
      return E;
  } else {
    Expected<StringRef> Contents = File.contents();
    if (!Contents)
      return Contents.takeError();
    Pass.values(withoutMark(*Contents));
  }
  return Pass.finish();
}

} // namespace culprit
