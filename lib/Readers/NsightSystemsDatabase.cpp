//===- NsightSystemsDatabase.cpp --------------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "Readers/NsightSystemsDatabase.h"
#include "Support/Error.h"
#include "Support/Units.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/Endian.h"
#include "llvm/Support/JSON.h"

using namespace llvm;

namespace culprit::nsys {

std::optional<double> Row::real(unsigned Column) const {
  sqlite3_value *Value = cell(Column);
  int Type = sqlite3_value_type(Value);
  if (Type != SQLITE_INTEGER && Type != SQLITE_FLOAT)
    return std::nullopt;
  return sqlite3_value_double(Value);
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

/// Opens the file where it lies, or, when it was compressed, in memory.
bool Database::connect() {
  int Code;
  if (!InMemory) {
    Code = sqlite3_open_v2(
        uriOf(Path).c_str(), &Handle,
        SQLITE_OPEN_READONLY | SQLITE_OPEN_URI | SQLITE_OPEN_NOMUTEX, nullptr);
  } else {
    Code =
        sqlite3_open_v2(":memory:", &Handle,
                        SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX, nullptr);
    auto *Data =
        reinterpret_cast<unsigned char *>(const_cast<char *>(Bytes.data()));
    if (Code == SQLITE_OK)
      Code = sqlite3_deserialize(Handle, "main", Data, Bytes.size(),
                                 Bytes.size(), SQLITE_DESERIALIZE_READONLY);
  }
  if (Code != SQLITE_OK)
    return false;
  sqlite3_db_config(Handle, SQLITE_DBCONFIG_DEFENSIVE, 1, nullptr);
  sqlite3_db_config(Handle, SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0, nullptr);
  sqlite3_db_config(Handle, SQLITE_DBCONFIG_ENABLE_VIEW, 0, nullptr);
  sqlite3_db_config(Handle, SQLITE_DBCONFIG_ENABLE_TRIGGER, 0, nullptr);
  // Pages are read where the file is mapped, not copied one by one.
  if (!InMemory)
    sqlite3_exec(Handle, "PRAGMA mmap_size = 1099511627776", nullptr, nullptr,
                 nullptr);
  // A text cell of a stranger's file may claim to be of any length.
  sqlite3_limit(Handle, SQLITE_LIMIT_LENGTH, 64 << 20);
  return true;
}

Expected<std::unique_ptr<Database>> Database::open(InputFile &File) {
  std::unique_ptr<Database> DB(new Database);
  DB->Path = File.path().str();
  DB->Size = File.diskSize();
  if (File.compression() != Compression::None) {
    Expected<StringRef> Bytes = File.contents();
    if (!Bytes)
      return Bytes.takeError();
    DB->InMemory = true;
    DB->Bytes = *Bytes;
    DB->Size = Bytes->size();
  }
  DB->Failure = truncationOf(File.head(), DB->Size);
  if (!DB->connect() || !DB->listTables()) {
    DB->note();
    return culprit::failure(File.path() + ": the SQLite file " + DB->Failure,
                            "export it again with nsys export --type sqlite");
  }
  DB->readVersion();
  return DB;
}

std::unique_ptr<Database> Database::another() const {
  std::unique_ptr<Database> DB(new Database);
  DB->Path = Path;
  DB->Bytes = Bytes;
  DB->InMemory = InMemory;
  DB->Size = Size;
  if (!DB->connect() || !DB->listTables())
    return nullptr;
  DB->Version = Version;
  return DB;
}

Database::~Database() {
  sqlite3_finalize(FindString);
  sqlite3_close(Handle);
}

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
    Visit(Row(Statement, UTF8));
  if (Code != SQLITE_DONE)
    note();
  sqlite3_finalize(Statement);
  return Code == SQLITE_DONE;
}

bool Database::listTables() {
  query("SELECT 0, encoding FROM pragma_encoding",
        [&](const Row &R) { UTF8 = R.bytes(0) == "UTF-8"; });
  bool Listed = query(
      "SELECT rowid, name FROM sqlite_master WHERE type = 'table' AND sql "
      "NOT LIKE 'CREATE VIRTUAL%'",
      [&](const Row &R) { Tables.try_emplace(R.text(0), 0); });
  for (const auto &Entry : Tables) {
    StringRef Name = Entry.getKey(), Base = Name;
    int Number = 1;
    if (size_t At = Name.rfind_insensitive("_v"); At != StringRef::npos)
      if (int N; !Name.drop_front(At + 2).getAsInteger(10, N) && N > 1 &&
                 N < 1000) {
        Base = Name.take_front(At);
        Number = N;
      }
    Versions[Base.str()].push_back({Number, Name.str()});
  }
  for (auto &[Base, Names] : Versions)
    llvm::sort(Names, std::greater<>());
  return Listed;
}

void Database::readVersion() {
  if (!Tables.count("META_DATA_EXPORT"))
    return;
  forEach("META_DATA_EXPORT", {"name", "value"}, [&](const Row &R) {
    if (R.text(0) == "EXPORT_SCHEMA_VERSION")
      Version.Text = R.text(1).take_front(40).str();
  });
  auto [Major, Rest] = StringRef(Version.Text).split('.');
  if (Major.getAsInteger(10, Version.Major) ||
      Rest.split('.').first.getAsInteger(10, Version.Minor))
    Version.Major = Version.Minor = 0;
}

bool Database::has(StringRef Table) const {
  return Versions.count(Table.str()) != 0;
}

bool Database::isExport() const {
  if (has("META_DATA_EXPORT") || has("NVTX_EVENTS"))
    return true;
  if (!has("StringIds"))
    return false;
  return any_of(Versions, [](const auto &Entry) {
    return StringRef(Entry.first).starts_with("CUPTI_ACTIVITY_KIND_") ||
           Entry.first == "OSRT_API";
  });
}

bool Database::hasRows(StringRef Table) {
  bool Any = false;
  query("SELECT 0 FROM " + quoted(Table) + " LIMIT 1",
        [&](const Row &) { Any = true; });
  return Any;
}

std::string Database::bestTable(StringRef Name) {
  auto [It, New] = Best.try_emplace(Name);
  if (!New)
    return It->second;
  auto Found = Versions.find(Name.str());
  if (Found == Versions.end())
    return {};
  It->second = Found->second.back().second;
  for (const auto &[Number, Table] : Found->second)
    if (hasRows(Table)) {
      It->second = Table;
      break;
    }
  return It->second;
}

const StringMap<bool> &Database::columnsOf(StringRef Table) {
  auto [It, New] = Columns.try_emplace(Table);
  if (New)
    query("SELECT 0, name, pk = 1 AND upper(type) = 'INTEGER' FROM "
          "pragma_table_info(" +
              quoted(Table) + ")",
          [&](const Row &R) {
            It->second.try_emplace(R.text(0), R.integer(1, 0) != 0);
          });
  return It->second;
}

bool Database::hasColumn(StringRef Table, StringRef Column) {
  std::string Name = bestTable(Table);
  return !Name.empty() && columnsOf(Name).count(Column);
}

size_t Database::rowsAtMost(StringRef Table) {
  std::string Name = bestTable(Table);
  size_t Most = 0;
  if (!Name.empty())
    query("SELECT 0, max(rowid) FROM " + quoted(Name), [&](const Row &R) {
      Most = static_cast<size_t>(std::max<int64_t>(R.integer(0, 0), 0));
    });
  // A row of an export takes 16 bytes and more.
  return std::min<size_t>(Most, Size / 16);
}

void Database::forEach(StringRef Table, ArrayRef<StringRef> Wanted,
                       function_ref<void(const Row &)> Visit,
                       unsigned Required) {
  std::string Name = bestTable(Table);
  if (Name.empty())
    return;
  const StringMap<bool> &Present = columnsOf(Name);
  for (StringRef Column : Wanted.take_front(Required))
    if (!Present.count(Column)) {
      if (hasRows(Name))
        Missed.push_back("table " + Name + " has no column '" + Column.str() +
                         "' and was not read");
      return;
    }
  std::string SQL = "SELECT rowid";
  for (StringRef Column : Wanted)
    SQL += Present.count(Column) ? ", " + quoted(Column) : ", NULL";
  query(SQL + " FROM " + quoted(Name) + " ORDER BY rowid", Visit);
}

static std::string asUTF8(StringRef Text) {
  return json::isUTF8(Text) ? Text.str() : json::fixUTF8(Text);
}

/// Some exports hold millions of strings of which few are asked for: they are
/// looked up one by one where the id is the key, and read whole elsewhere.
void Database::readStrings() {
  StringsRead = true;
  if (!has("StringIds"))
    return;
  const StringMap<bool> &Present = columnsOf("StringIds");
  auto Id = Present.find("id");
  if (Id == Present.end() || !Present.count("value"))
    return;
  if (Id->second &&
      sqlite3_prepare_v2(Handle, "SELECT 0, value FROM StringIds WHERE id = ?",
                         -1, &FindString, nullptr) == SQLITE_OK)
    return;
  query("SELECT rowid, id, value FROM StringIds", [&](const Row &R) {
    Strings.try_emplace(R.integer(0, -1), asUTF8(R.text(1)));
  });
}

StringRef Database::string(std::optional<int64_t> Id) {
  if (!Id)
    return {};
  if (!StringsRead)
    readStrings();
  auto It = Strings.find(*Id);
  if (It != Strings.end())
    return It->second;
  if (!FindString)
    return {};
  std::string &Text = Strings[*Id];
  sqlite3_bind_int64(FindString, 1, *Id);
  int Code = sqlite3_step(FindString);
  if (Code == SQLITE_ROW)
    Text = asUTF8(Row(FindString, UTF8).text(0));
  else if (Code != SQLITE_DONE)
    note();
  sqlite3_reset(FindString);
  return Text;
}

StringRef Database::label(StringRef Enum, int64_t Id) {
  auto [It, New] = Enums.try_emplace(Enum.str());
  if (New)
    forEach(Enum, {"id", "label", "name"}, [&](const Row &R) {
      StringRef Text = R.text(1).empty() ? R.text(2) : R.text(1);
      It->second.try_emplace(R.integer(0, -1), asUTF8(Text));
    });
  auto Found = It->second.find(Id);
  return Found == It->second.end() ? StringRef() : StringRef(Found->second);
}

/// Activity tables that exports have and that hold nothing for a case.
static bool isKnownActivity(StringRef Name) {
  return StringSwitch<bool>(Name)
      .Cases("KERNEL", "MEMCPY", "MEMSET", "RUNTIME", "GRAPH_TRACE", true)
      .Cases("SYNCHRONIZATION", "CUDA_EVENT", "OVERHEAD", true)
      .Cases("STREAM", "DEVICE", "CONTEXT", "MEMORY_POOL", "MEMORY2", true)
      .Default(false);
}

std::vector<std::string> Database::oddities() {
  std::vector<std::string> Out;
  for (const auto &[Base, Names] : Versions) {
    std::vector<std::string> Full;
    for (const auto &[Number, Table] : Names)
      if (Names.size() > 1 && hasRows(Table))
        Full.push_back(Table);
    if (Full.size() > 1)
      Out.push_back("tables " + join(Full, " and ") + " both have rows; " +
                    Full[0] + " was read");
    StringRef Kind = Base;
    if (Version.isNewer() && Kind.consume_front("CUPTI_ACTIVITY_KIND_") &&
        !isKnownActivity(Kind) && hasRows(Names[0].second))
      Out.push_back("table " + Names[0].second + " is not known and was left");
  }
  return Out;
}

} // namespace culprit::nsys
