//===- Database.h - SQLite with errors and ownership ------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
///
/// \file
/// The little of SQLite that a store needs, with owned handles and
/// llvm::Error.
///
//===----------------------------------------------------------------------===//

#ifndef CULPRIT_KB_DATABASE_H
#define CULPRIT_KB_DATABASE_H

#include "llvm/ADT/STLFunctionalExtras.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"
#include <memory>
#include <string>

struct sqlite3;
struct sqlite3_blob;
struct sqlite3_stmt;

namespace culprit {

class Database;

/// A prepared statement. Must not outlive its database. Parameters count from
/// 1, columns from 0.
class Statement {
public:
  void bind(int Index, llvm::StringRef Text);
  void bind(int Index, int64_t Value);
  /// The same without a copy: \p Text must live until the statement has run.
  void bindView(int Index, llvm::StringRef Text);
  void bindBlob(int Index, llvm::StringRef Bytes);

  /// Steps to the next row; false when there is none.
  llvm::Expected<bool> next();
  /// Runs to the end and makes the statement ready to run again.
  llvm::Error run();
  /// Makes the statement ready to run again; keeps its parameters.
  void reset();

  /// Valid until the next step.
  llvm::StringRef text(int Column) const;
  int64_t integer(int Column) const;

private:
  friend class Database;
  struct Finalizer {
    void operator()(sqlite3_stmt *S) const;
  };
  std::unique_ptr<sqlite3_stmt, Finalizer> Handle;
};

/// A column of one table whose values are read into memory without a copy.
/// Must not outlive its database.
class BlobReader {
public:
  /// Sets \p Into to the value in the row \p Id, which must be there.
  llvm::Error read(int64_t Id, std::string &Into);

private:
  friend class Database;
  struct Closer {
    void operator()(sqlite3_blob *B) const;
  };
  std::unique_ptr<sqlite3_blob, Closer> Handle; ///< Opened at the first read.
  sqlite3 *D = nullptr;
  const char *Table = "", *Column = "";
};

/// A connection, used by one thread at a time.
class Database {
public:
  /// A new database in memory.
  static llvm::Expected<Database> inMemory();
  /// Creates the file \p Path or opens it for writing.
  static llvm::Expected<Database> create(llvm::StringRef Path);
  /// Opens \p Path, which nobody may change meanwhile: no locks, no journal,
  /// no writing. Stores are replaced by renaming, never changed in place.
  static llvm::Expected<Database> openImmutable(llvm::StringRef Path);

  llvm::Expected<Statement> prepare(llvm::StringRef Sql) const;
  /// Both names must live as long as the reader.
  BlobReader blobs(const char *Table, const char *Column) const;
  /// Runs the statements of \p Sql, which give no rows.
  llvm::Error execute(llvm::StringRef Sql) const;
  /// What messages call it.
  llvm::StringRef name() const { return Name; }

private:
  static llvm::Expected<Database> open(llvm::StringRef Uri,
                                       llvm::StringRef Name, int Flags);
  llvm::Error error() const;

  struct Closer {
    void operator()(sqlite3 *D) const;
  };
  std::unique_ptr<sqlite3, Closer> Handle;
  std::string Name; ///< For messages.
};

/// Calls \p Each for every row of \p Sql.
llvm::Error forEachRow(const Database &D, llvm::StringRef Sql,
                       llvm::function_ref<void(const Statement &)> Each);

} // namespace culprit

#endif // CULPRIT_KB_DATABASE_H
