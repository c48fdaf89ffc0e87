//===- nsys-select.cpp - Reading an export against bare SELECTs -*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
///
/// \file
/// usage: nsys-select EXPORT.sqlite
///        nsys-select --make EXPORT.sqlite COPIES OUT.sqlite
///
/// The first form measures, in one run, how long SQLite takes to step through
/// the columns that the Nsight Systems reader wants, with nothing done to
/// them, and how long the reader takes, with one thread and with all. The
/// best of three counts. The second form makes a large export of time-shifted
/// copies of the rows of another, which is left as it is.
///
//===----------------------------------------------------------------------===//

#include "Readers/Reader.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/raw_ostream.h"
#include <chrono>
#include <set>
#include <sqlite3.h>

using namespace llvm;
using namespace culprit;

namespace {

struct Wanted {
  const char *Table;
  const char *Columns; ///< Those an export lacks are left out.
};

constexpr Wanted Tables[] = {
    {"CUPTI_ACTIVITY_KIND_KERNEL",
     "start end deviceId contextId streamId correlationId globalPid "
     "demangledName gridX gridY gridZ blockX blockY blockZ registersPerThread "
     "staticSharedMemory dynamicSharedMemory graphNodeId"},
    {"CUPTI_ACTIVITY_KIND_MEMCPY",
     "start end deviceId contextId streamId correlationId globalPid bytes "
     "copyKind srcKind dstKind graphNodeId"},
    {"CUPTI_ACTIVITY_KIND_MEMSET",
     "start end deviceId contextId streamId correlationId globalPid bytes"},
    {"CUPTI_ACTIVITY_KIND_RUNTIME",
     "start end globalTid correlationId nameId returnValue"},
    {"CUPTI_ACTIVITY_KIND_SYNCHRONIZATION",
     "start end deviceId streamId correlationId globalPid syncType eventId"},
    {"NVTX_EVENTS", "start end eventType text textId globalTid domainId"},
    {"OSRT_API", "start end globalTid nameId"},
};

class Db {
public:
  Db(const std::string &Path, int Flags) {
    if (sqlite3_open_v2(Path.c_str(), &D, Flags, nullptr) != SQLITE_OK) {
      errs() << "nsys-select: " << Path << ": " << sqlite3_errmsg(D) << '\n';
      exit(1);
    }
  }
  ~Db() { sqlite3_close(D); }

  /// Steps \p Sql to its end; the number of rows.
  size_t run(const std::string &Sql) {
    sqlite3_stmt *S = nullptr;
    if (sqlite3_prepare_v2(D, Sql.c_str(), -1, &S, nullptr) != SQLITE_OK) {
      errs() << "nsys-select: " << Sql << ": " << sqlite3_errmsg(D) << '\n';
      exit(1);
    }
    size_t Rows = 0;
    while (sqlite3_step(S) == SQLITE_ROW)
      ++Rows;
    sqlite3_finalize(S);
    return Rows;
  }
  std::vector<std::string> columns(const std::string &Table) {
    std::vector<std::string> Out;
    sqlite3_stmt *S = nullptr;
    std::string Sql = "SELECT name FROM pragma_table_info('" + Table + "')";
    if (sqlite3_prepare_v2(D, Sql.c_str(), -1, &S, nullptr) == SQLITE_OK)
      while (sqlite3_step(S) == SQLITE_ROW)
        Out.push_back(
            reinterpret_cast<const char *>(sqlite3_column_text(S, 0)));
    sqlite3_finalize(S);
    return Out;
  }

private:
  sqlite3 *D = nullptr;
};

/// The SELECTs that give the wanted columns of every table there is.
std::vector<std::string> selects(Db &D) {
  std::vector<std::string> Out;
  for (const Wanted &W : Tables) {
    std::vector<std::string> Here = D.columns(W.Table);
    std::set<std::string> Known(Here.begin(), Here.end());
    std::string List;
    SmallVector<StringRef> Names;
    StringRef(W.Columns).split(Names, ' ');
    for (StringRef Name : Names)
      if (Known.count(Name.str()))
        List += (List.empty() ? "\"" : ", \"") + Name.str() + "\"";
    if (!List.empty())
      Out.push_back("SELECT " + List + " FROM " + W.Table);
  }
  return Out;
}

double seconds(function_ref<void()> Work) {
  double Best = 1e9;
  for (int I = 0; I != 3; ++I) {
    auto Begin = std::chrono::steady_clock::now();
    Work();
    std::chrono::duration<double> Took =
        std::chrono::steady_clock::now() - Begin;
    Best = std::min(Best, Took.count());
  }
  return Best;
}

/// A second apart each, so that copies follow one another.
int make(const char *From, int Copies, const char *To) {
  if (std::error_code EC = sys::fs::copy_file(From, To)) {
    errs() << "nsys-select: " << To << ": " << EC.message() << '\n';
    return 1;
  }
  Db D(To, SQLITE_OPEN_READWRITE);
  D.run("PRAGMA journal_mode = OFF");
  D.run("BEGIN");
  for (const Wanted &W : Tables) {
    std::vector<std::string> Names = D.columns(W.Table);
    if (Names.empty())
      continue;
    D.run("CREATE TEMP TABLE One AS SELECT * FROM " + std::string(W.Table));
    for (int I = 1; I < Copies; ++I) {
      std::string List;
      for (const std::string &Name : Names) {
        List += List.empty() ? "" : ", ";
        if (Name == "start" || Name == "end")
          List += "\"" + Name + "\" + " + std::to_string(I) + "000000000";
        else if (Name == "correlationId")
          List += Name + " + " + std::to_string(I) + "0000000";
        else
          List += "\"" + Name + "\"";
      }
      D.run("INSERT INTO " + std::string(W.Table) + " SELECT " + List +
            " FROM One");
    }
    D.run("DROP TABLE One");
  }
  D.run("COMMIT");
  return 0;
}

} // namespace

int main(int Argc, char **Argv) {
  if (Argc == 5 && StringRef(Argv[1]) == "--make")
    return make(Argv[2], atoi(Argv[3]), Argv[4]);
  if (Argc != 2) {
    errs() << "usage: nsys-select EXPORT.sqlite\n"
              "       nsys-select --make EXPORT.sqlite COPIES OUT.sqlite\n";
    return 2;
  }
  size_t Rows = 0;
  double Bare = seconds([&] {
    Db D("file:" + std::string(Argv[1]) + "?immutable=1",
         SQLITE_OPEN_READONLY | SQLITE_OPEN_URI);
    Rows = 0;
    for (const std::string &Sql : selects(D))
      Rows += D.run(Sql);
  });
  outs() << "rows stepped through:    " << Rows << '\n'
         << format("bare SELECTs, 1 thread:  %.3f s\n", Bare);
  for (unsigned Threads : {1u, 2u}) {
    double Took = seconds([&] {
      Expected<Case> C = readCase({std::string(Argv[1])}, Threads);
      if (!C) {
        errs() << toString(C.takeError()) << '\n';
        exit(1);
      }
    });
    outs() << format("reader, %u thread%s:%s      %.3f s, %.0f %% of the speed "
                     "of the SELECTs\n",
                     Threads, Threads == 1 ? "" : "s", Threads == 1 ? " " : "",
                     Took, 100 * Bare / Took);
  }
  return 0;
}
