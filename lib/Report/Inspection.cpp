//===- Inspection.cpp - culprit inspect -------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "KB/TextWrap.h"
#include "Report/Report.h"
#include "Support/Units.h"
#include "Table/Expression.h"
#include "Table/Statistics.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/FormatVariadic.h"

using namespace llvm;

namespace culprit {

namespace {

std::string share(double Part, double Whole) {
  return Whole > 0 ? formatv("{0:F1} %", 100 * Part / Whole).str() : "-";
}

void printInputs(raw_ostream &OS, const Case &C, unsigned Width) {
  OS << "inputs\n";
  for (const InputSummary &I : C.inputs()) {
    std::vector<std::string> Rows;
    for (auto [Id, Count] : I.Rows)
      Rows.push_back(formatCount(static_cast<int64_t>(Count)) + " " +
                     schema(Id).Name.str());
    std::string What = I.Failed           ? "could not be read"
                       : I.Format.empty() ? "unknown format, left alone"
                                          : I.Format;
    if (!Rows.empty())
      What += ": " + join(Rows, ", ");
    printWrapped(OS, I.Path + "  " + What, "  ", "      ", Width);
  }
}

void printTables(raw_ostream &OS, const Case &C, unsigned Width) {
  OS << "\ntables\n";
  for (unsigned T = 0; T != NumTables; ++T) {
    TableId Id = static_cast<TableId>(T);
    if (!C.has(Id))
      continue;
    std::vector<std::string> Known;
    for (unsigned I = 0; I != schema(Id).Columns.size(); ++I)
      if (C.has(Id, I))
        Known.push_back(schema(Id).Columns[I].Name.str());
    printWrapped(OS, join(Known, ", "),
                 formatv("  {0,-13} {1,10}  ", schema(Id).Name,
                         formatCount(static_cast<int64_t>(C.table(Id).rows())))
                     .str(),
                 std::string(27, ' '), Width);
  }
}

/// Sum of `dur` over the rows of \p T in state \p State.
double stateSum(const Table &T, StringRef State) {
  Expected<Table> Rows = whereEqual(T, {{"state", State.str()}});
  if (!Rows) {
    consumeError(Rows.takeError());
    return 0;
  }
  double Sum = 0;
  for (double V : cantFail(Rows->numbers("dur")))
    Sum += V;
  return Sum;
}

void printDevices(raw_ostream &OS, const Case &C) {
  const Table &Windows = C.table(TableId::windows);
  if (Windows.empty())
    return;
  OS << "\ndevices, over the steady steps\n"
     << formatv("  {0,4} {1,6} {2,6} {3,10} {4,8} {5,9} {6,10} {7,8}\n", "rank",
                "device", "steps", "window", "busy", "starved", "launching",
                "stalled");
  for (size_t I = 0; I != Windows.rows(); ++I) {
    auto At = [&](unsigned Column) {
      return Windows.columns()[Column].getInt(I);
    };
    Expected<Table> Gaps =
        whereEqual(C.table(TableId::gaps),
                   {{"rank", At(windows::rank)}, {"device", At(windows::device)}});
    if (!Gaps) {
      consumeError(Gaps.takeError());
      continue;
    }
    double Window = static_cast<double>(At(windows::dur));
    OS << formatv("  {0,4} {1,6} {2,6} {3,10} {4,8} {5,9} {6,10} {7,8}\n",
                  At(windows::rank), At(windows::device), At(windows::steps),
                  formatDuration(At(windows::dur)),
                  share(static_cast<double>(At(windows::busy)), Window),
                  share(stateSum(*Gaps, "starved"), Window),
                  share(stateSum(*Gaps, "launching"), Window),
                  share(stateSum(*Gaps, "stalled"), Window));
  }
}

void printScalars(raw_ostream &OS, const Case &C) {
  const Table &Scalars = C.table(TableId::scalars);
  if (Scalars.empty())
    return;
  OS << "\nscalars\n"
     << formatv("  {0,-24} {1,8} {2,10} {3,10} {4,10} {5,10} {6,6}\n", "name",
                "rows", "first", "last", "min", "max", "nan");
  Expected<Table> Global = where(Scalars, "layer is null and primary == true");
  if (!Global)
    return consumeError(Global.takeError());
  Expected<std::vector<Table>> Groups = Global->group({"name"});
  if (!Groups)
    return consumeError(Groups.takeError());
  for (const Table &G : *Groups) {
    std::vector<double> Values = cantFail(G.numbers("value"));
    size_t Broken = llvm::count_if(Values, [](double V) {
      return !std::isfinite(V);
    });
    auto Low = quantile(Values, 0), High = quantile(Values, 1);
    OS << formatv("  {0,-24} {1,8} {2,10} {3,10} {4,10} {5,10} {6,6}\n",
                  G.cell(0, *G.find("name")).String,
                  formatCount(static_cast<int64_t>(G.rows())),
                  formatNumber(Values.front()), formatNumber(Values.back()),
                  Low ? formatNumber(*Low) : "-",
                  High ? formatNumber(*High) : "-", Broken);
  }
}

void printTensors(raw_ostream &OS, const Case &C) {
  const Table &Tensors = C.table(TableId::tensors);
  if (Tensors.empty())
    return;
  Expected<Table> Broken = where(Tensors, "nonfinite > 0");
  if (!Broken)
    return consumeError(Broken.takeError());
  int64_t Elements = 0;
  for (int64_t N : cantFail(Tensors.integers("numel")))
    Elements += N == NullInt ? 0 : N;
  OS << "\ntensors\n  " << formatCount(Elements) << " values in "
     << formatCount(static_cast<int64_t>(Tensors.rows())) << " tensors, "
     << formatCount(static_cast<int64_t>(Broken->rows()))
     << " tensors with NaN or Inf\n";
}

} // namespace

void printInspection(raw_ostream &OS, const Case &C, const TextStyle &Style) {
  printInputs(OS, C, Style.Width);
  printTables(OS, C, Style.Width);
  printDevices(OS, C);
  printScalars(OS, C);
  printTensors(OS, C);
  if (size_t Rows = std::max<size_t>(1, C.table(TableId::gpu_work).rows() +
                                            C.table(TableId::host_calls).rows() +
                                            C.table(TableId::host_ops).rows());
      Rows > 1)
    OS << formatv("\nmemory: {0} in columns, {1:F0} bytes a profile event\n",
                  formatBytes(static_cast<double>(C.bytes())),
                  static_cast<double>(C.bytes()) / static_cast<double>(Rows));
}

} // namespace culprit
