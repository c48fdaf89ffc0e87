//===- TransformerEngine.cpp ------------------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "Readers/TransformerEngine.h"
#include "Readers/ScalarRows.h"
#include "Readers/TextLines.h"
#include "Support/LooseJson.h"
#include "Support/Units.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/Path.h"

using namespace llvm;

namespace culprit {

namespace {
/// One line of a statistics log.
struct StatisticLine {
  StringRef Name;
  int64_t Step;
  double Value;
};
} // namespace

/// INFO - NAME   iteration=000002   value=4.3188
static std::optional<StatisticLine> entryOf(StringRef Line) {
  size_t At = Line.find(" - ");
  if (At == StringRef::npos)
    return std::nullopt;
  Line = Line.drop_front(At + 3).trim();
  auto [Name, Rest] = Line.split(' ');
  Rest = Rest.ltrim();
  if (Name.empty() || !Rest.consume_front("iteration="))
    return std::nullopt;
  StatisticLine Out;
  Out.Name = Name;
  auto [Step, Value] = Rest.split(' ');
  Value = Value.ltrim();
  if (Step.empty() || Step.size() > 12 || !all_of(Step, isDigit) ||
      Step.getAsInteger(10, Out.Step) || !Value.consume_front("value="))
    return std::nullopt;
  std::optional<double> Number = parseNumber(Value.trim());
  if (!Number)
    return std::nullopt;
  Out.Value = *Number;
  return Out;
}

/// Layer and metric of \p Name: "fc1" and "activation_max" of
/// "fc1_activation_max". An unknown tensor leaves all of it to the metric.
static std::pair<StringRef, StringRef> split(StringRef Name) {
  for (StringRef Tensor : {"_activation_", "_gradient_", "_weight_", "_output_",
                           "_wgrad_", "_dgrad_"})
    if (size_t At = Name.rfind(Tensor); At != StringRef::npos && At != 0)
      return {Name.take_front(At), Name.drop_front(At + 1)};
  return {"", Name};
}

/// nvdlfw_inspect_globalrank-3.log
static std::optional<int64_t> rankOf(StringRef Path) {
  StringRef File = sys::path::filename(Path);
  size_t At = File.find("globalrank-");
  int64_t Rank;
  if (At == StringRef::npos ||
      File.drop_front(At + strlen("globalrank-"))
          .take_while(isDigit)
          .getAsInteger(10, Rank))
    return std::nullopt;
  return Rank;
}

Match TransformerEngineReader::matches(const InputFile &File) const {
  size_t Lines = 0, Entries = 0;
  forEachLine(completeLines(File.head(), File.head().size() <
                                             InputFile::HeadBytes),
              [&](StringRef Line, int64_t) {
                if (Line.trim().empty())
                  return true;
                ++Lines;
                Entries += entryOf(Line).has_value();
                return Lines < 64;
              });
  return Entries != 0 && Entries * 4 >= Lines * 3 ? Match::Certain : Match::No;
}

Error TransformerEngineReader::read(InputFile &File, Source &Into) const {
  Expected<StringRef> Contents = File.contents();
  if (!Contents)
    return Contents.takeError();
  ScalarRows Scalars(Into);
  const std::optional<int64_t> Rank = rankOf(Into.path());
  int64_t Skipped = 0, FirstSkipped = 0;
  forEachLine(*Contents, [&](StringRef Line, int64_t Number) {
    if (Line.trim().empty())
      return true;
    std::optional<StatisticLine> E = entryOf(Line);
    if (!E) {
      if (Skipped++ == 0)
        FirstSkipped = Number;
      return true;
    }
    auto [Layer, Metric] = split(E->Name);
    Scalars.begin(Number);
    Scalars.step(E->Step);
    if (Rank)
      Scalars.rank(*Rank);
    if (!Layer.empty())
      Scalars.string("layer", Layer);
    Scalars.number(Metric, E->Value);
    Scalars.end();
    return true;
  });
  Scalars.finish();
  Into.KeepRanks = Rank.has_value();
  if (Skipped)
    Into.warn(Into.path() + ":" + Twine(FirstSkipped) + ": " +
                  formatCount(Skipped) + " lines are no statistics",
              "they were skipped; the others were read");
  return Error::success();
}

} // namespace culprit
