//===- Database.cpp ---------------------------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "KB/Database.h"
#include "Support/Error.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FileSystem.h"
#include <algorithm>
#include <climits>
#include <sqlite3.h>

using namespace llvm;

namespace culprit {

void Statement::Finalizer::operator()(sqlite3_stmt *S) const {
  sqlite3_finalize(S);
}

void Database::Closer::operator()(sqlite3 *D) const { sqlite3_close_v2(D); }

void Statement::bind(int Index, StringRef Text) {
  // A null pointer would bind NULL instead of the empty text.
  sqlite3_bind_text(Handle.get(), Index, Text.empty() ? "" : Text.data(),
                    static_cast<int>(Text.size()), SQLITE_TRANSIENT);
}

void Statement::bindView(int Index, StringRef Text) {
  sqlite3_bind_text(Handle.get(), Index, Text.empty() ? "" : Text.data(),
                    static_cast<int>(Text.size()), SQLITE_STATIC);
}

void Statement::bindBlob(int Index, StringRef Bytes) {
  sqlite3_bind_blob64(Handle.get(), Index, Bytes.empty() ? "" : Bytes.data(),
                      Bytes.size(), SQLITE_STATIC);
}

void Statement::bind(int Index, int64_t Value) {
  sqlite3_bind_int64(Handle.get(), Index, Value);
}

/// \p Message with the file of \p D and, where \p Code says that it is damaged,
/// the remedy.
static Error failureOf(sqlite3 *D, int Code, StringRef Message) {
  const char *Path = sqlite3_db_filename(D, "main");
  return failure((Path && *Path ? std::string(Path) + ": " : "") + Message,
                 Code == SQLITE_CORRUPT ? "rebuild it with 'culprit kb build'"
                                        : "");
}

Expected<bool> Statement::next() {
  int Code = sqlite3_step(Handle.get());
  if (Code == SQLITE_ROW)
    return true;
  if (Code == SQLITE_DONE)
    return false;
  sqlite3 *D = sqlite3_db_handle(Handle.get());
  return failureOf(D, Code, sqlite3_errmsg(D));
}

Error Statement::run() {
  while (true) {
    Expected<bool> More = next();
    if (!More)
      return More.takeError();
    if (!*More)
      break;
  }
  reset();
  return Error::success();
}

void Statement::reset() { sqlite3_reset(Handle.get()); }

StringRef Statement::text(int Column) const {
  const unsigned char *Text = sqlite3_column_text(Handle.get(), Column);
  int Size = sqlite3_column_bytes(Handle.get(), Column);
  return Text ? StringRef(reinterpret_cast<const char *>(Text),
                          static_cast<size_t>(Size))
              : StringRef();
}

int64_t Statement::integer(int Column) const {
  return sqlite3_column_int64(Handle.get(), Column);
}

Expected<Database> Database::open(StringRef Uri, StringRef Name, int Flags) {
  Database D;
  D.Name = Name.str();
  sqlite3 *Raw = nullptr;
  int Code =
      sqlite3_open_v2(Uri.str().c_str(), &Raw,
                      Flags | SQLITE_OPEN_URI | SQLITE_OPEN_NOMUTEX, nullptr);
  D.Handle.reset(Raw);
  if (Code != SQLITE_OK)
    return failure(Name + ": " + sqlite3_errstr(Code));
  return D;
}

Expected<Database> Database::inMemory() {
  return open(":memory:", "knowledge base", SQLITE_OPEN_READWRITE);
}

/// `file:` URIs end their path at `?` and `#` and read `%` escapes.
static std::string fileUri(StringRef Path, StringRef Query) {
  std::string Uri = "file:";
  for (char C : Path) {
    if (C == '%' || C == '?' || C == '#') {
      Uri += '%';
      Uri += toHex(StringRef(&C, 1));
    } else {
      Uri += C;
    }
  }
  Uri += Query;
  return Uri;
}

Expected<Database> Database::create(StringRef Path) {
  return open(fileUri(Path, ""), Path,
              SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE);
}

Expected<Database> Database::openImmutable(StringRef Path) {
  Expected<Database> D =
      open(fileUri(Path, "?immutable=1"), Path, SQLITE_OPEN_READONLY);
  // Nothing in it can be longer than the file; 1 MB is left for SQLite.
  uint64_t Size = 0;
  if (D && !sys::fs::file_size(Path, Size))
    sqlite3_limit(
        D->Handle.get(), SQLITE_LIMIT_LENGTH,
        static_cast<int>(std::clamp<uint64_t>(Size, 1 << 20, INT_MAX)));
  // Saves a copy of every page. Where it cannot be, pages are read.
  if (D)
    consumeError(D->execute("PRAGMA mmap_size = 1073741824"));
  return D;
}

Error Database::error() const {
  return failure(Name + ": " + sqlite3_errmsg(Handle.get()));
}

Expected<Statement> Database::prepare(StringRef Sql) const {
  sqlite3_stmt *Raw = nullptr;
  int Code = sqlite3_prepare_v2(Handle.get(), Sql.data(),
                                static_cast<int>(Sql.size()), &Raw, nullptr);
  if (Code != SQLITE_OK)
    return error();
  Statement S;
  S.Handle.reset(Raw);
  return S;
}

BlobReader Database::blobs(const char *Table, const char *Column) const {
  BlobReader R;
  R.D = Handle.get();
  R.Table = Table;
  R.Column = Column;
  return R;
}

void BlobReader::Closer::operator()(sqlite3_blob *B) const {
  sqlite3_blob_close(B);
}

Error BlobReader::read(int64_t Id, std::string &Into) {
  int Code;
  if (Handle) {
    Code = sqlite3_blob_reopen(Handle.get(), Id);
  } else {
    sqlite3_blob *New = nullptr;
    Code = sqlite3_blob_open(D, "main", Table, Column, Id, /*flags=*/0, &New);
    Handle.reset(New);
  }
  if (Code == SQLITE_OK) {
    int Size = sqlite3_blob_bytes(Handle.get());
    // A damaged row may claim up to 2 GB.
    if (Size > sqlite3_limit(D, SQLITE_LIMIT_LENGTH, -1)) {
      Handle.reset();
      return failureOf(D, SQLITE_CORRUPT, "a value is larger than the file");
    }
    Into.resize(static_cast<size_t>(Size));
    Code = sqlite3_blob_read(Handle.get(), Into.data(), Size, 0);
  }
  if (Code == SQLITE_OK)
    return Error::success();
  Handle.reset();
  return failureOf(D, Code, sqlite3_errmsg(D));
}

Error Database::execute(StringRef Sql) const {
  if (sqlite3_exec(Handle.get(), Sql.str().c_str(), nullptr, nullptr,
                   nullptr) != SQLITE_OK)
    return error();
  return Error::success();
}

Error forEachRow(const Database &D, StringRef Sql,
                 function_ref<void(const Statement &)> Each) {
  Expected<Statement> S = D.prepare(Sql);
  if (!S)
    return S.takeError();
  while (true) {
    Expected<bool> More = S->next();
    if (!More)
      return More.takeError();
    if (!*More)
      return Error::success();
    Each(*S);
  }
}

} // namespace culprit
