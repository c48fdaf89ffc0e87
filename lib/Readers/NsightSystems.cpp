//===- NsightSystems.cpp ----------------------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "Readers/NsightSystems.h"
#include "Readers/NsightSystemsParts.h"
#include "Support/Units.h"
#include "llvm/Support/ThreadPool.h"

using namespace llvm;

namespace culprit {

Match NsightSystemsReader::matches(const InputFile &File) const {
  StringRef Head = File.head();
  if (!Head.starts_with(StringRef("SQLite format 3\0", 16)))
    return Match::No;
  // The schema begins in the first page, but a long one spreads over the file
  // and the head need not hold any of it.
  for (StringRef Table : {"CUPTI_ACTIVITY_KIND_", "META_DATA_EXPORT",
                          "NVTX_EVENTS", "TARGET_INFO_SESSION_START_TIME"})
    if (Head.contains(Table))
      return Match::Certain;
  Expected<std::unique_ptr<InputFile>> Again = InputFile::open(File.path());
  if (!Again) {
    consumeError(Again.takeError());
    return Match::No;
  }
  Expected<std::unique_ptr<nsys::Database>> DB = nsys::Database::open(**Again);
  if (!DB) {
    // Cut off or damaged: nobody else reads databases, so say what is wrong.
    consumeError(DB.takeError());
    return Match::Possible;
  }
  return (*DB)->isExport() ? Match::Certain : Match::No;
}

using ReadPart = void (*)(nsys::Part &);

/// The parts of every export; those that tend to be large come first, so that
/// a second thread has something to do until the end.
static constexpr ReadPart Parts[] = {
    nsys::readHostRanges,   nsys::readDeviceWork, nsys::readCalls,
    nsys::readThreadStates, nsys::readSyncs,      nsys::readMemory,
    nsys::readProfilerEvents};

namespace {
/// What parts had to say about the file, in the order of parts.
struct Remarks {
  std::string Failure;
  std::vector<std::string> Missed;
  int64_t Skipped = 0;

  void add(const nsys::Database &DB, int64_t Rows) {
    if (Failure.empty())
      Failure = DB.failure();
    for (const std::string &Text : DB.missed())
      if (!is_contained(Missed, Text))
        Missed.push_back(Text);
    Skipped += Rows;
  }
};
} // namespace

/// Reads all parts, each over its own connection where that pays.
static Remarks readParts(nsys::Database &DB, bool Small, Source &Into) {
  nsys::Findings Found;
  Remarks Out;
  Out.Failure = DB.failure();
  if (Small) {
    int64_t Skipped = 0;
    for (ReadPart Read : Parts) {
      nsys::Part P = {DB, Into, Found};
      Read(P);
      Skipped += P.Skipped;
    }
    Out.add(DB, Skipped);
  } else {
    std::unique_ptr<nsys::Database> Own[std::size(Parts)];
    int64_t Skipped[std::size(Parts)] = {};
    DefaultThreadPool Pool(hardware_concurrency());
    for (size_t I = 0; I != std::size(Parts); ++I)
      Pool.async([&, I] {
        Own[I] = DB.another();
        if (!Own[I])
          return;
        nsys::Part P = {*Own[I], Into, Found};
        Parts[I](P);
        Skipped[I] = P.Skipped;
      });
    Pool.wait();
    for (size_t I = 0; I != std::size(Parts); ++I)
      if (Own[I])
        Out.add(*Own[I], Skipped[I]);
      else if (Out.Failure.empty())
        Out.Failure = "cannot be opened a second time";
  }
  nsys::Part Last = {DB, Into, Found};
  nsys::finishExport(Last);
  Out.add(DB, Last.Skipped);
  return Out;
}

Error NsightSystemsReader::read(InputFile &File, Source &Into) const {
  Expected<std::unique_ptr<nsys::Database>> Opened = nsys::Database::open(File);
  if (!Opened)
    return Opened.takeError();
  nsys::Database &DB = **Opened;
  // Below this a second thread costs more than it wins.
  constexpr uint64_t SmallFile = 8 << 20;
  Remarks Said = readParts(DB, File.diskSize() < SmallFile, Into);

  // Ranks are told from the others and are there even without any.
  int64_t Rows = 0;
  for (unsigned I = 0; I != NumTables; ++I)
    if (static_cast<TableId>(I) != TableId::ranks)
      if (TableBuilder *T = Into.existing(static_cast<TableId>(I)))
        Rows += T->rows();
  StringRef Path = File.path();
  StringRef Hint = "export it again with nsys export --type sqlite";
  if (!Said.Failure.empty() && Rows == 0)
    return failure(Path + ": the SQLite file " + Said.Failure, Hint);
  if (!Said.Failure.empty())
    Into.warn(Path + ": the SQLite file " + Said.Failure + "; " +
                  formatCount(Rows) + " rows could be read",
              Hint);
  std::vector<std::string> Odd = std::move(Said.Missed);
  append_range(Odd, DB.oddities());
  for (const std::string &Text : Odd)
    Into.warn(Path + ": " + Text,
              DB.version().isNewer()
                  ? "its schema " + DB.version().Text +
                        " is newer than the newest known here, 3.25"
                  : "");
  if (Said.Skipped)
    Into.warn(Path + ": " + formatCount(Said.Skipped) +
              " rows were skipped: they have no time or end before they begin");
  return Error::success();
}

} // namespace culprit
