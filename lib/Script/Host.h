//===- Host.h - One Lua state and its limits --------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
///
/// \file
/// A Host owns the Lua state of one run of one detector and keeps it within
/// bounds: memory by its allocator, time by a hook every thousand
/// instructions, before and after every binding, and within those that may
/// take long. All Lua code runs inside run(), which turns whatever goes wrong
/// into a DetectorError with file and line.
///
/// The bounds protect from mistakes, not from attackers.
///
//===----------------------------------------------------------------------===//

#ifndef CULPRIT_SCRIPT_HOST_H
#define CULPRIT_SCRIPT_HOST_H

#include "Detect/Detector.h"
#include "Script/Costs.h"
#include "Script/Lua.h"
#include "Script/Modules.h"
#include "llvm/ADT/STLFunctionalExtras.h"
#include <deque>

namespace culprit {

/// Longest file of Lua that is compiled, in bytes.
constexpr size_t MaxSourceBytes = size_t(256) << 10;

/// \p Text as failures hold it: of bounded length, and without what would move
/// the cursor or is no UTF-8.
std::string failureText(llvm::StringRef Text);

/// Not thread-safe; one a thread.
class Host {
public:
  /// \p File is what errors name.
  Host(std::string File, const Limits &Bounds);
  ~Host();
  Host(const Host &) = delete;
  Host &operator=(const Host &) = delete;

  /// The host that \p L belongs to.
  static Host &of(lua_State *L) {
    return **static_cast<Host **>(lua_getextraspace(L));
  }

  /// Calls \p Body under protection, with an empty stack. True if nothing
  /// went wrong; else error() says what did.
  bool run(llvm::function_ref<void(lua_State *)> Body);

  const DetectorError &error() const { return Failure; }
  size_t peakBytes() const { return Peak; }

  /// Compiles \p Source in the sandbox and runs it, which leaves the value it
  /// returned on the stack. \p Code is of this text alone, which both outlive
  /// the host. For use inside run().
  void load(lua_State *L, llvm::StringRef Source, const ByteCode &Code);
  /// As load() for one more text of Lua, in the same sandbox.
  void loadMore(lua_State *L, llvm::StringRef Name, llvm::StringRef Source);
  void loadModule(lua_State *L, const ModuleSet::Module &M);

  // For bindings ----------------------------------------------------------//

  /// Fails when the time is up.
  llvm::Error poll() const;
  bool expired() const { return std::chrono::steady_clock::now() > Ends; }
  /// Counts a row that the script goes over; fails when these are too many.
  llvm::Error countRow();
  /// The line of Lua that is being run.
  ScriptLine currentLine(lua_State *L) const;

  /// Records \p E as what went wrong, at the line that is being run, and
  /// pushes the value to throw with lua_error().
  void fail(lua_State *L, llvm::Error E);

  /// Counts \p Bytes of table data that a value of the script holds. Lua sees
  /// a few bytes where there are megabytes, so the host starts the garbage
  /// collector, and fails when what is alive is too much.
  llvm::Error charge(lua_State *L, size_t Bytes);
  void release(size_t Bytes) { Tables -= Bytes; }
  /// Sets how much that is; Limits::Tables when not set.
  void setTableLimit(size_t Bytes) { TableLimit = Bytes; }

  /// Where the time went; null unless Limits::Timed.
  Costs *costs() { return Times ? &*Times : nullptr; }
  /// The same for people, once all has run.
  std::vector<VerbCost> costList() const;

  // What the detector runs on; null while its declaration is read.
  const Case *Evidence = nullptr;
  const DetectorInfo *Info = nullptr;
  llvm::ArrayRef<Scalar> Options;
  Outcome *Result = nullptr;
  /// What `require` finds; null for nothing.
  const ModuleSet *Modules = nullptr;

private:
  static void *allocate(void *Self, void *Old, size_t OldSize, size_t NewSize);
  static void onCount(lua_State *L, lua_Debug *);
  static int onError(lua_State *L);
  static int onPanic(lua_State *L);
  void loadAs(lua_State *L, size_t Number, llvm::StringRef Name,
              llvm::StringRef Source, const ByteCode &Code);
  /// The lines of the Lua functions being run, innermost first.
  static std::vector<ScriptLine> lines(lua_State *L);
  void setPlace(llvm::ArrayRef<ScriptLine> Lines);
  void describe(lua_State *L, llvm::StringRef Message);
  void nameNil(lua_State *L, ScriptLine At);

  lua_State *State = nullptr;
  /// By the number of the chunk; empty for modules that are not required.
  std::vector<std::string> Files;
  std::vector<llvm::StringRef> Texts; ///< What is written in them.
  /// What loadMore() was given.
  std::deque<std::pair<std::string, std::unique_ptr<ByteCode>>> More;
  Limits Bounds;
  std::chrono::steady_clock::time_point Ends;
  size_t Used = 0, Peak = 0;
  std::vector<ScriptLine> LinesAtRefusal; ///< When memory was last refused.
  size_t Tables = 0, TablesAtCollection = 0;
  size_t TableLimit;
  size_t RowsSeen = 0;
  std::optional<Costs> Times;
  DetectorError Failure;
};

} // namespace culprit

#endif // CULPRIT_SCRIPT_HOST_H
