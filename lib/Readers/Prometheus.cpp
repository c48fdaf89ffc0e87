//===- Prometheus.cpp -------------------------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "Readers/Prometheus.h"
#include "Readers/CounterNames.h"
#include "Readers/CounterSamples.h"
#include "Readers/TextLines.h"
#include "Support/LooseJson.h"
#include "llvm/ADT/StringExtras.h"

using namespace llvm;

namespace culprit {

namespace {
/// A sample as it is written.
struct PrometheusSample {
  StringRef Name, Labels;
  double Value = 0;
  std::optional<double> Unix;
};
} // namespace

static bool isNameByte(char C) { return isAlnum(C) || C == '_' || C == ':'; }

/// Where the braces of \p Text, which begins behind the opening one, end:
/// values of labels may hold braces themselves.
static size_t endOfLabels(StringRef Text) {
  bool Quoted = false;
  for (size_t I = 0; I != Text.size(); ++I) {
    if (Quoted && Text[I] == '\\')
      ++I;
    else if (Text[I] == '"')
      Quoted = !Quoted;
    else if (!Quoted && Text[I] == '}')
      return I;
    if (I >= Text.size())
      break;
  }
  return StringRef::npos;
}

static std::optional<PrometheusSample> parseSample(StringRef Line) {
  PrometheusSample Out;
  Out.Name = Line.take_while(isNameByte);
  StringRef Rest = Line.drop_front(Out.Name.size());
  if (Out.Name.empty() || isDigit(Out.Name[0]))
    return std::nullopt;
  if (Rest.consume_front("{")) {
    size_t End = endOfLabels(Rest);
    if (End == StringRef::npos)
      return std::nullopt;
    Out.Labels = Rest.take_front(End);
    Rest = Rest.drop_front(End + 1);
  }
  if (!Rest.starts_with(" ") && !Rest.starts_with("\t"))
    return std::nullopt;
  SmallVector<StringRef, 3> Cells;
  SplitString(Rest.split(" # ").first, Cells, " \t"); // exemplars follow
  if (Cells.empty() || Cells.size() > 2)
    return std::nullopt;
  std::optional<double> Value = parseNumber(Cells[0]);
  if (!Value)
    return std::nullopt;
  Out.Value = *Value;
  if (Cells.size() == 2) {
    std::optional<double> Time = parseNumber(Cells[1]);
    if (!Time)
      return std::nullopt;
    Out.Unix = *Time > 1e11 ? *Time / 1000 : *Time;
  }
  return Out;
}

/// "# TYPE name gauge".
static bool isTypeLine(StringRef Line) {
  if (!Line.consume_front("# TYPE "))
    return false;
  StringRef Kind = Line.trim().rsplit(' ').second;
  return Kind == "gauge" || Kind == "counter" || Kind == "histogram" ||
         Kind == "summary" || Kind == "untyped" || Kind == "unknown";
}

static bool isServerName(StringRef Name) {
  for (StringRef Prefix : {"vllm:", "vllm_", "tgi_", "sglang:", "sglang_",
                           "llamacpp:", "nv_inference_", "trtllm_"})
    if (Name.starts_with(Prefix))
      return true;
  return false;
}

Match PrometheusReader::matches(const InputFile &File) const {
  unsigned Lines = 0, Samples = 0, Types = 0, Own = 0, Comments = 0;
  bool Whole = File.head().size() < InputFile::HeadBytes;
  forEachLine(completeLines(File.head(), Whole), [&](StringRef Line, int64_t) {
    Line = Line.trim();
    if (Line.empty())
      return true;
    ++Lines;
    if (Line.starts_with("#")) {
      ++Comments;
      Types += isTypeLine(Line);
    } else if (std::optional<PrometheusSample> P = parseSample(Line)) {
      ++Samples;
      Own += isServerName(P->Name);
    }
    return Lines < 200;
  });
  if (Types && Samples && (Samples + Comments) * 10 >= Lines * 9)
    return Match::Certain;
  return Own >= 2 && Samples * 10 >= Lines * 9 ? Match::Likely : Match::No;
}

namespace {
/// The pass over one dump.
class PrometheusPass {
public:
  explicit PrometheusPass(Source &S) : Out(S) {}

  void line(StringRef Line, int64_t Number);
  size_t rows() const { return Out.rows(); }

  size_t Broken = 0;
  int64_t FirstBroken = 0;

private:
  void labels(StringRef Text);

  CounterSamples Out;
  // Of the sample.
  std::string Name;
  std::optional<int64_t> Device, Rank;
};
} // namespace

void PrometheusPass::labels(StringRef Text) {
  // Where something runs, and when it began, is no other quantity.
  static constexpr StringLiteral Places[] = {
      "model_name", "model", "instance", "job",     "pod",    "namespace",
      "container",  "node",  "hostname", "version", "UUID",   "modelName",
      "service",    "host",  "endpoint", "Hostname"};
  std::string Kept;
  while (!Text.empty()) {
    Text = Text.ltrim(" ,");
    auto [Key, Rest] = Text.split('=');
    if (!Rest.consume_front("\""))
      break;
    size_t End = 0;
    while (End < Rest.size() && Rest[End] != '"')
      End += Rest[End] == '\\' ? 2 : 1;
    StringRef Value = Rest.take_front(End);
    Text = End < Rest.size() ? Rest.drop_front(End + 1) : "";
    Key = Key.trim();
    int64_t Number;
    if ((Key == "engine" || Key == "rank") && !Value.getAsInteger(10, Number))
      Rank = Number;
    else if (Key == "gpu" && !Value.getAsInteger(10, Number))
      Device = Number;
    else if (!is_contained(Places, Key) && !Value.empty())
      Kept += (Kept.empty() ? "" : ",") + (Key + "=\"" + Value + "\"").str();
  }
  if (!Kept.empty())
    Name += "{" + Kept + "}";
}

void PrometheusPass::line(StringRef Line, int64_t Number) {
  Line = Line.trim();
  if (Line.empty() || Line.starts_with("#"))
    return;
  std::optional<PrometheusSample> P = parseSample(Line);
  if (!P) {
    if (Broken++ == 0)
      FirstBroken = Number;
    return;
  }
  // Cells of a histogram, and when a series was made.
  if (P->Name.ends_with("_bucket") || P->Name.ends_with("_created") ||
      P->Labels.contains("quantile=\""))
    return;
  Device.reset();
  Rank.reset();
  CounterName Known = counterName(P->Name);
  Name = Known.Name;
  labels(P->Labels);
  Out.add(Name, P->Value * Known.Factor, P->Unix, Device, Rank, Number);
}

Error PrometheusReader::read(InputFile &File, Source &Into) const {
  Expected<StringRef> Contents = File.contents();
  if (!Contents)
    return Contents.takeError();
  Into.KeepRanks = true; // engine 0 is rank 0, whatever else tells of it
  PrometheusPass Pass(Into);
  forEachLine(*Contents, [&](StringRef Line, int64_t Number) {
    Pass.line(Line, Number);
    return true;
  });
  if (Pass.Broken)
    Into.warn(Into.path() + ":" + Twine(Pass.FirstBroken) + ": " +
                  Twine(Pass.Broken) +
                  (Pass.Broken == 1 ? " line is no sample"
                                    : " lines are no samples"),
              "skipped; fetch /metrics again if the answer was cut off");
  if (!Pass.rows())
    return failure(Into.path() + ": holds no sample",
                   "nothing was counted yet, or only histograms' buckets are "
                   "left");
  return Error::success();
}

} // namespace culprit
