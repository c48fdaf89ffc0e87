//===- Source.cpp -----------------------------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "Case/Source.h"
#include "Case/TensorNames.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/Path.h"

using namespace llvm;

namespace culprit {

TableBuilder::TableBuilder(TableId Id, StringPool &Pool)
    : Id(Id), Strings(Pool) {
  for (const ColumnSchema &C : schema(Id).Columns)
    Columns.emplace_back(C.Type);
}

void TableBuilder::append(const TableBuilder &Other) {
  assert(Id == Other.Id && "rows of one table only");
  for (unsigned I = 0; I != Columns.size(); ++I) {
    const Column &Theirs = Other.Columns[I];
    if (Theirs.size() == 0)
      continue;
    Columns[I].padTo(NumRows);
    Columns[I].append(Theirs);
  }
  NumRows += Other.NumRows;
}

void TableBuilder::keep(ArrayRef<uint32_t> Kept) {
  for (Column &C : Columns) {
    if (C.size() == 0)
      continue;
    C.padTo(NumRows);
    Column Fewer(C.type());
    Fewer.append(C, Kept);
    C = std::move(Fewer);
  }
  NumRows = Kept.size();
}

void TableBuilder::fill(unsigned I, ArrayRef<int64_t> Values) {
  assert(Values.size() == NumRows && Columns[I].size() == 0);
  for (int64_t Value : Values)
    Columns[I].addInt(Value);
}

Column &TableBuilder::finished(unsigned I) {
  Columns[I].padTo(NumRows);
  return Columns[I];
}

/// Folders that trainers make inside the folder of a run.
static bool isPartOfRun(StringRef Folder) {
  for (StringRef Name : {"dumps", "tensors", "tensor_dumps", "logs", "log",
                         "metrics", "events", "checkpoints", "traces"})
    if (Folder == Name)
      return true;
  for (StringRef Prefix : {"step", "rank", "checkpoint", "version_",
                           "global_step", "iter_", "epoch_", "ckpt-", "ckpt_",
                           "mp_rank_"})
    if (Folder.starts_with(Prefix) &&
        Folder.drop_front(Prefix.size())
            .drop_while([](char C) { return C == '_' || C == '-'; })
            .find_if_not(isDigit) == StringRef::npos)
      return true;
  return false;
}

/// W&B's files/ in the folder of a run, which it names by date and id; a link
/// leads to the latest.
static bool isFilesOfWandb(StringRef Folder) {
  StringRef Run = sys::path::filename(sys::path::parent_path(Folder));
  return sys::path::filename(Folder) == "files" &&
         (Run.starts_with("run-") || Run.starts_with("offline-run-") ||
          Run == "latest-run");
}

/// A checkpoint that is named by its step alone, and LeRobot's folders in it.
static bool isPartOfCheckpoint(StringRef Folder) {
  StringRef Name = sys::path::filename(Folder);
  if (Name == "pretrained_model" || Name == "training_state")
    Folder = sys::path::parent_path(Folder);
  return isCheckpointNumber(sys::path::filename(Folder),
                            sys::path::parent_path(Folder));
}

Source::Source(std::string Path, StringPool &Pool)
    : Path(std::move(Path)), Pool(Pool), Tables(NumTables) {
  StringRef Folder = sys::path::parent_path(this->Path);
  while (isPartOfRun(sys::path::filename(Folder)) || isFilesOfWandb(Folder) ||
         isPartOfCheckpoint(Folder))
    Folder = sys::path::parent_path(Folder);
  Run = Folder.empty() ? "." : Folder.str();
}

Source::~Source() = default;

TableBuilder &Source::table(TableId Id) {
  std::unique_ptr<TableBuilder> &Slot = Tables[static_cast<unsigned>(Id)];
  if (!Slot)
    Slot = std::make_unique<TableBuilder>(Id, Pool);
  return *Slot;
}

TableBuilder *Source::existing(TableId Id) {
  return Tables[static_cast<unsigned>(Id)].get();
}

} // namespace culprit
