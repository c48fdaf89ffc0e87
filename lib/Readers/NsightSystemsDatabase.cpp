//===- NsightSystemsDatabase.cpp --------------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "Readers/NsightSystemsDatabase.h"
#include "Support/Error.h"
#include "Support/Units.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/Endian.h"
#include "llvm/Support/JSON.h"
#include <sqlite3.h>

using namespace llvm;

namespace culprit::nsys {

int64_t Row::place() const { return sqlite3_column_int64(Statement, 0); }

std::optional<int64_t> Row::integer(unsigned Column) const {
  int Index = static_cast<int>(Column) + 1;
  if (sqlite3_column_type(Statement, Index) != SQLITE_INTEGER)
    return std::nullopt;
  return sqlite3_column_int64(Statement, Index);
}

StringRef Row::text(unsigned Column) const {
  int Index = static_cast<int>(Column) + 1;
  const unsigned char *Text = sqlite3_column_text(Statement, Index);
  if (!Text)
    return {};
  return StringRef(reinterpret_cast<const char *>(Text),
                   sqlite3_column_bytes(Statement, Index));
}

/// \p Path as a URI, in which `?`, `#` and `%` would mean something else.
static std::string uriOf(StringRef Path) {
  std::string URI = "file:";
  for (char C : Path) {
    if (isAlnum(C) || StringRef("/._-~").contains(C))
      URI += C;
    else
      URI += "%" + toHex(StringRef(&C, 1));
  }
  return URI + "?mode=ro&immutable=1";
}

static std::string quoted(StringRef Identifier) {
  std::string Out = "\"";
  for (char C : Identifier) {
    Out += C;
    if (C == '"')
      Out += C;
  }
  return Out + "\"";
}

/// Opens \p File where it lies, or, when compressed, from memory.
static int openHandle(InputFile &File, sqlite3 **Handle) {
  constexpr int Flags =
      SQLITE_OPEN_READONLY | SQLITE_OPEN_URI | SQLITE_OPEN_NOMUTEX;
  if (File.compression() == Compression::None)
    return sqlite3_open_v2(uriOf(File.path()).c_str(), Handle, Flags, nullptr);
  Expected<StringRef> Bytes = File.contents();
  if (!Bytes) {
    consumeError(Bytes.takeError());
    return SQLITE_NOMEM;
  }
  if (int Code =
          sqlite3_open_v2(":memory:", Handle,
                          SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX, nullptr))
    return Code;
  auto *Data =
      reinterpret_cast<unsigned char *>(const_cast<char *>(Bytes->data()));
  return sqlite3_deserialize(*Handle, "main", Data, Bytes->size(),
                             Bytes->size(), SQLITE_DESERIALIZE_READONLY);
}

/// What is missing of a file whose header knows how long it should be, as a
/// sentence; SQLite itself reads a torn last page as zeros and says nothing.
static std::string truncationOf(StringRef Header, uint64_t Size) {
  if (Header.size() < 100)
    return "is cut off inside of its header";
  const char *Bytes = Header.data();
  uint64_t PageSize = support::endian::read16be(Bytes + 16);
  if (PageSize == 1)
    PageSize = 65536;
  // The page count counts only if the same writer set both of these.
  if (support::endian::read32be(Bytes + 24) !=
      support::endian::read32be(Bytes + 92))
    return {};
  uint64_t Wanted = PageSize * support::endian::read32be(Bytes + 28);
  if (Size >= Wanted)
    return {};
  return "is cut off: it has " + formatCount(Size) + " of " +
         formatCount(Wanted) + " bytes";
}

Expected<std::unique_ptr<Database>> Database::open(InputFile &File) {
  std::unique_ptr<Database> DB(new Database);
  uint64_t Size = File.diskSize();
  if (File.compression() != Compression::None) {
    Expected<StringRef> Bytes = File.contents();
    if (!Bytes)
      return Bytes.takeError();
    Size = Bytes->size();
  }
  DB->Failure = truncationOf(File.head(), Size);
  bool Opened = openHandle(File, &DB->Handle) == SQLITE_OK;
  if (Opened) {
    sqlite3_db_config(DB->Handle, SQLITE_DBCONFIG_DEFENSIVE, 1, nullptr);
    sqlite3_db_config(DB->Handle, SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0, nullptr);
    sqlite3_db_config(DB->Handle, SQLITE_DBCONFIG_ENABLE_VIEW, 0, nullptr);
    sqlite3_db_config(DB->Handle, SQLITE_DBCONFIG_ENABLE_TRIGGER, 0, nullptr);
  }
  if (!Opened || !DB->listTables()) {
    DB->note();
    return culprit::failure(File.path() + ": the SQLite file " + DB->Failure,
                            "export it again with nsys export --type sqlite");
  }
  return DB;
}

Database::~Database() { sqlite3_close(Handle); }

void Database::note() {
  if (Failure.empty())
    Failure = std::string("is damaged: ") + sqlite3_errmsg(Handle);
}

bool Database::query(const std::string &SQL,
                     function_ref<void(const Row &)> Visit) {
  sqlite3_stmt *Statement = nullptr;
  if (sqlite3_prepare_v2(Handle, SQL.c_str(), -1, &Statement, nullptr) !=
      SQLITE_OK) {
    note();
    return false;
  }
  int Code;
  while ((Code = sqlite3_step(Statement)) == SQLITE_ROW)
    Visit(Row(Statement));
  if (Code != SQLITE_DONE)
    note();
  sqlite3_finalize(Statement);
  return Code == SQLITE_DONE;
}

bool Database::listTables() {
  return query(
      "SELECT rowid, name FROM sqlite_master WHERE type = 'table' AND sql "
      "NOT LIKE 'CREATE VIRTUAL%'",
      [&](const Row &R) { Tables.try_emplace(R.text(0), 0); });
}

bool Database::isExport() const {
  if (has("META_DATA_EXPORT") || has("NVTX_EVENTS"))
    return true;
  if (!has("StringIds"))
    return false;
  return any_of(Tables, [](const auto &Entry) {
    return Entry.getKey().starts_with("CUPTI_ACTIVITY_KIND_") ||
           Entry.getKey() == "OSRT_API";
  });
}

std::string Database::bestTable(StringRef Name) {
  std::string Best;
  int64_t Most = -1;
  for (const char *Suffix : {"_V4", "_V3", "_V2", ""}) {
    std::string Candidate = (Name + Suffix).str();
    if (!has(Candidate))
      continue;
    int64_t Rows = 0;
    query("SELECT 0, count(*) FROM " + quoted(Candidate),
          [&](const Row &R) { Rows = R.integer(0, 0); });
    if (Rows > Most) {
      Most = Rows;
      Best = Candidate;
    }
  }
  return Best;
}

StringMap<char> Database::columnsOf(StringRef Table) {
  StringMap<char> Out;
  query("SELECT 0, name FROM pragma_table_info(" + quoted(Table) + ")",
        [&](const Row &R) { Out.try_emplace(R.text(0), 0); });
  return Out;
}

void Database::forEach(StringRef Table, ArrayRef<StringRef> Columns,
                       function_ref<void(const Row &)> Visit) {
  std::string Name = bestTable(Table);
  if (Name.empty())
    return;
  StringMap<char> Present = columnsOf(Name);
  std::string SQL = "SELECT rowid";
  for (StringRef Column : Columns)
    SQL += Present.count(Column) ? ", " + quoted(Column) : ", NULL";
  query(SQL + " FROM " + quoted(Name) + " ORDER BY rowid", Visit);
}

StringRef Database::string(std::optional<int64_t> Id) {
  if (!Id)
    return {};
  if (!StringsRead) {
    StringsRead = true;
    query("SELECT rowid, id, value FROM StringIds", [&](const Row &R) {
      std::string Text = R.text(1).str();
      Strings.try_emplace(R.integer(0, -1), json::isUTF8(Text)
                                                ? std::move(Text)
                                                : json::fixUTF8(Text));
    });
  }
  auto It = Strings.find(*Id);
  return It == Strings.end() ? StringRef() : StringRef(It->second);
}

StringRef Database::label(StringRef Enum, int64_t Id) {
  auto [It, New] = Enums.try_emplace(Enum.str());
  if (New && has(Enum))
    query("SELECT 0, id, label FROM " + quoted(Enum), [&](const Row &R) {
      It->second.try_emplace(R.integer(0, -1), R.text(1).str());
    });
  auto Found = It->second.find(Id);
  return Found == It->second.end() ? StringRef() : StringRef(Found->second);
}

} // namespace culprit::nsys
