//===- MlflowStore.cpp ------------------------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
//
// The layout is that of mlflow/store/tracking/file_store.py.
//
//===----------------------------------------------------------------------===//

#include "Readers/MlflowStore.h"
#include "Readers/ConfigRows.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringSwitch.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Path.h"

using namespace llvm;

namespace culprit {

namespace {
/// Where a file stands in a run.
struct StorePlace {
  enum { Nowhere, Metric, Param, Tag } What = Nowhere;
  StringRef Run, Key;
  bool Sure = false; ///< The run's meta.yaml lies where it must.
};

/// A line of a file of metrics.
struct MetricLine {
  int64_t Milliseconds = 0, Step = 0;
  double Value = 0;
};
} // namespace

static bool hasMeta(StringRef Run) {
  SmallString<256> Meta(Run);
  sys::path::append(Meta, "meta.yaml");
  return sys::fs::exists(Meta);
}

/// The place that \p Path tells: below a folder metrics, params or tags, the
/// outermost whose parent is a run. Without the run's meta.yaml it is the
/// innermost.
static StorePlace placeOf(StringRef Path) {
  StorePlace Out;
  for (size_t Slash = Path.find('/'); Slash != StringRef::npos;
       Slash = Path.find('/', Slash + 1)) {
    StringRef Folder = sys::path::filename(Path.take_front(Slash));
    auto What = StringSwitch<decltype(Out.What)>(Folder)
                    .Case("metrics", StorePlace::Metric)
                    .Case("params", StorePlace::Param)
                    .Case("tags", StorePlace::Tag)
                    .Default(StorePlace::Nowhere);
    if (What == StorePlace::Nowhere)
      continue;
    Out.What = What;
    Out.Run = sys::path::parent_path(Path.take_front(Slash));
    if (Out.Run.empty())
      Out.Run = ".";
    Out.Key = Path.drop_front(Slash + 1);
    Out.Sure = hasMeta(Out.Run);
    if (Out.Sure)
      return Out;
  }
  return Out;
}

/// "timestamp value step"; stores before 1.0 wrote no step, and those of 3.0
/// put a model's or a data set's name behind it.
static std::optional<MetricLine> parseMetric(StringRef Line) {
  SmallVector<StringRef, 6> Parts;
  Line.trim().split(Parts, ' ');
  MetricLine Out;
  if (Parts.size() < 2 || Parts.size() > 6 ||
      Parts[0].getAsInteger(10, Out.Milliseconds))
    return std::nullopt;
  std::optional<double> Value = parseNumber(Parts[1]);
  if (!Value || (Parts.size() > 2 && Parts[2].getAsInteger(10, Out.Step)))
    return std::nullopt;
  Out.Value = *Value;
  return Out;
}

/// Whether the first lines are of a file of metrics: 2001 to 2286 in
/// milliseconds. (MLflow takes what time it is given, 0 too, but then only the
/// place tells.)
static bool looksLikeMetrics(StringRef Head, bool Sure) {
  unsigned Lines = 0, Good = 0;
  bool Whole = Head.size() < InputFile::HeadBytes;
  forEachLine(completeLines(Head, Whole), [&](StringRef Line, int64_t) {
    if (Line.trim().empty())
      return true;
    std::optional<MetricLine> M = parseMetric(Line);
    Good += M && (Sure || (M->Milliseconds > 1'000'000'000'000 &&
                           M->Milliseconds < 10'000'000'000'000));
    return ++Lines < 20;
  });
  return Good && Good * 2 > Lines;
}

static bool isRunMeta(StringRef Path, StringRef Head) {
  return sys::path::filename(Path) == "meta.yaml" &&
         Head.contains("lifecycle_stage:") &&
         (Head.contains("run_uuid:") || Head.contains("run_id:"));
}

Match MlflowStoreReader::matches(const InputFile &File) const {
  StringRef Head = File.head();
  if (isRunMeta(File.path(), Head))
    return Match::Certain;
  StorePlace Place = placeOf(File.path());
  switch (Place.What) {
  case StorePlace::Nowhere:
    return Match::No;
  case StorePlace::Metric:
    if (!looksLikeMetrics(Head, Place.Sure))
      return Match::No;
    return Place.Sure ? Match::Certain : Match::Likely;
  case StorePlace::Param:
  case StorePlace::Tag:
    // Any text may be a value, so the place must be beyond doubt. MLflow
    // refuses params of more than 8000 characters.
    return Place.Sure && Head.size() <= 8000 && !Head.contains('\0')
               ? Match::Certain
               : Match::No;
  }
  return Match::No;
}

static Error readMetric(StringRef Text, StringRef Key, Source &Into) {
  ScalarRows Rows(Into);
  size_t Broken = 0;
  forEachLine(Text, [&](StringRef Line, int64_t Number) {
    if (Line.trim().empty())
      return true;
    std::optional<MetricLine> M = parseMetric(Line);
    if (!M) {
      if (++Broken <= 3)
        Into.warn(Into.path() + ":" + Twine(Number) +
                      ": not 'timestamp value step'",
                  "the line was skipped; a run that was killed leaves its last "
                  "line unfinished");
      return true;
    }
    Rows.begin(Number);
    Rows.number(Key, M->Value);
    if (M->Milliseconds > 100'000'000'000)
      Rows.wallTime(static_cast<double>(M->Milliseconds) / 1e3);
    Rows.step(M->Step); // last: the key may be the name of a step
    Rows.end();
    return true;
  });
  if (Broken > 3)
    Into.warn(Into.path() + ": " + Twine(Broken - 3) +
              " more lines are not 'timestamp value step'");
  Rows.finish();
  if (Rows.rows() == 0)
    return failure(Into.path() + ": no value in it",
                   "a line is 'timestamp value step'");
  return Error::success();
}

/// RunStatus of mlflow/protos/service.proto.
static StringRef statusName(StringRef Value) {
  return StringSwitch<StringRef>(Value)
      .Case("1", "RUNNING")
      .Case("2", "SCHEDULED")
      .Case("3", "FINISHED")
      .Case("4", "FAILED")
      .Case("5", "KILLED")
      .Default(Value);
}

/// Only plain "key: value" lines: all that MLflow writes there.
static Error readMeta(StringRef Text, Source &Into) {
  ConfigRows Config(Into);
  forEachLine(Text, [&](StringRef Line, int64_t Number) {
    auto [Key, Value] = Line.split(": ");
    Value = Value.trim().trim("'\"");
    if (!Key.empty() && !isSpace(Key[0]) && !Value.empty())
      Config.add(("mlflow." + Key.trim()).str(),
                 Key == "status" ? statusName(Value) : Value, Number);
    return true;
  });
  Config.finish();
  if (Config.rows() == 0)
    return failure(Into.path() + ": no setting in it",
                   "a line is such as 'status: 3'");
  return Error::success();
}

Error MlflowStoreReader::read(InputFile &File, Source &Into) const {
  Expected<StringRef> Text = File.contents();
  if (!Text)
    return Text.takeError();
  StorePlace Place = placeOf(Into.path());
  if (isRunMeta(Into.path(), File.head())) {
    Into.Run = sys::path::parent_path(Into.path()).str();
    if (Into.Run.empty())
      Into.Run = ".";
    return readMeta(*Text, Into);
  }
  Into.Run = Place.Run.str();
  if (Place.What == StorePlace::Metric)
    return readMetric(*Text, Place.Key, Into);
  ConfigRows Config(Into);
  Config.add(Place.What == StorePlace::Tag ? ("tags." + Place.Key).str()
                                           : Place.Key.str(),
             Text->trim(), 1);
  return Error::success();
}

} // namespace culprit
