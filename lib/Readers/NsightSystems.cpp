//===- NsightSystems.cpp ----------------------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "Readers/NsightSystems.h"
#include "Readers/NsightSystemsRows.h"
#include "Support/Units.h"

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

Error NsightSystemsReader::read(InputFile &File, Source &Into) const {
  Expected<std::unique_ptr<nsys::Database>> Opened = nsys::Database::open(File);
  if (!Opened)
    return Opened.takeError();
  nsys::Database &DB = **Opened;
  nsys::RowMaker Maker(DB, Into);
  Maker.readAll();

  // Ranks are told from the others and are there even without any.
  int64_t Rows = 0;
  for (unsigned I = 0; I != NumTables; ++I)
    if (static_cast<TableId>(I) != TableId::ranks)
      if (TableBuilder *T = Into.existing(static_cast<TableId>(I)))
        Rows += T->rows();
  StringRef Path = File.path();
  StringRef Hint = "export it again with nsys export --type sqlite";
  if (!DB.failure().empty() && Rows == 0)
    return failure(Path + ": the SQLite file " + DB.failure(), Hint);
  if (!DB.failure().empty())
    Into.warn(Path + ": the SQLite file " + DB.failure() + "; " +
                  formatCount(Rows) + " rows could be read",
              Hint);
  if (Maker.Skipped)
    Into.warn(Path + ": " + formatCount(Maker.Skipped) +
              " rows were skipped: they have no time or end before they begin");
  return Error::success();
}

} // namespace culprit
