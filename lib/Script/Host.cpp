//===- Host.cpp -------------------------------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "Script/Host.h"
#include "Script/NilNames.h"
#include "Script/Sandbox.h"
#include "Support/Deadline.h"
#include "Support/PlainText.h"
#include "Support/Text.h"
#include "Support/Units.h"
#include "llvm/ADT/ScopeExit.h"
#include "llvm/Support/ErrorHandling.h"
#include <cstdlib>
#include <new>

using namespace llvm;

namespace culprit {

/// With its number the name of a chunk in Lua's own messages, replaced by the
/// file. Lua would cut a long path short.
static constexpr StringLiteral ChunkName = "chunk";
static constexpr int HookInstructions = 1000;
static constexpr size_t MaxCallers = 4;
static constexpr size_t MaxLines = 64;
/// Longest message, and hint, in bytes: either may quote what a script made.
static constexpr size_t MaxMessage = 2000;

Host::Host(std::string File, const Limits &Bounds)
    : Files{std::move(File)}, Bounds(Bounds),
      Ends(std::chrono::steady_clock::now() + Bounds.Time),
      TableLimit(Bounds.Tables) {
  if (Bounds.Timed)
    Times.emplace();
  State = lua_newstate(allocate, this);
  if (!State)
    return; // run() reports it
  *static_cast<Host **>(lua_getextraspace(State)) = this;
  lua_atpanic(State, onPanic);
  lua_sethook(State, onCount, LUA_MASKCOUNT, HookInstructions);
}

Host::~Host() {
  if (State)
    lua_close(State);
}

void *Host::allocate(void *Self, void *Old, size_t OldSize, size_t NewSize) {
  Host &H = *static_cast<Host *>(Self);
  if (!Old)
    OldSize = 0; // a type tag, not a size
  if (NewSize == 0) {
    std::free(Old);
    H.Used -= OldSize;
    return nullptr;
  }
  if (NewSize > OldSize && H.Used - OldSize + NewSize > H.Bounds.Memory) {
    // Lua unwinds an out-of-memory error without its message handler, so
    // where it happened has to be noted here. This reads only.
    if (H.State)
      H.LinesAtRefusal = lines(H.State);
    return nullptr;
  }
  void *New = std::realloc(Old, NewSize);
  if (!New)
    return nullptr;
  H.Used += NewSize - OldSize;
  H.Peak = std::max(H.Peak, H.Used);
  return New;
}

std::string failureText(StringRef Text) {
  return printable(shortened(Text, MaxMessage), /*KeepBreaks=*/true);
}

int Host::onPanic(lua_State *) {
  report_fatal_error("a Lua error outside of Host::run");
}

Error Host::poll() const {
  if (!expired())
    return Error::success();
  return failure(
      "ran longer than " +
          formatDuration(
              std::chrono::duration_cast<std::chrono::nanoseconds>(Bounds.Time)
                  .count()),
      "let verbs do the work: where, group, aggregate, top");
}

void Host::onCount(lua_State *L, lua_Debug *) {
  Host &H = Host::of(L);
  if (Costs *Times = H.costs())
    Times->tick(H.currentLine(L));
  if (!H.expired())
    return;
  H.fail(L, H.poll());
  lua_error(L);
}

/// The line that \p Frame is at; none in C.
static std::optional<ScriptLine> lineOf(lua_State *L, lua_Debug &Frame) {
  ScriptLine At;
  if (!lua_getinfo(L, "Sl", &Frame) || Frame.currentline <= 0)
    return std::nullopt;
  StringRef Name = Frame.short_src;
  if (!Name.consume_front(ChunkName) || Name.getAsInteger(10, At.Chunk))
    return std::nullopt;
  At.Line = static_cast<unsigned>(Frame.currentline);
  return At;
}

std::vector<ScriptLine> Host::lines(lua_State *L) {
  std::vector<ScriptLine> Lines;
  lua_Debug Frame;
  for (int Level = 0;
       Lines.size() != MaxLines && lua_getstack(L, Level, &Frame); ++Level)
    if (std::optional<ScriptLine> At = lineOf(L, Frame))
      Lines.push_back(*At);
  return Lines;
}

ScriptLine Host::currentLine(lua_State *L) const {
  lua_Debug Frame;
  for (int Level = 0; lua_getstack(L, Level, &Frame); ++Level)
    if (std::optional<ScriptLine> At = lineOf(L, Frame))
      return *At;
  return {};
}

/// Fills the place of the failure from \p Lines, the innermost first.
/// Recursion repeats a line, which tells nothing.
void Host::setPlace(ArrayRef<ScriptLine> Lines) {
  if (Lines.empty())
    return;
  Failure.File = Files[Lines.front().Chunk];
  Failure.Line = Lines.front().Line;
  ScriptLine Before = Lines.front();
  for (ScriptLine At : Lines.drop_front()) {
    if (At != Before && Failure.CalledFrom.size() < MaxCallers)
      Failure.CalledFrom.push_back({Files[At.Chunk], At.Line});
    Before = At;
  }
}

std::vector<VerbCost> Host::costList() const {
  std::vector<VerbCost> Out;
  if (Times)
    for (const auto &[Where, C] : Times->all())
      Out.push_back({{Files[Where.first.Chunk], Where.first.Line},
                     Where.second,
                     C.Calls,
                     C.Ns,
                     C.Bytes});
  llvm::stable_sort(
      Out, [](const VerbCost &A, const VerbCost &B) { return A.Ns > B.Ns; });
  return Out;
}

Error Host::countRow() {
  if (++RowsSeen <= Bounds.Rows)
    return Error::success();
  return failure("went over more than " +
                     formatCount(static_cast<int64_t>(Bounds.Rows)) +
                     " rows one by one",
                 "let verbs do the work: where, group, aggregate, join");
}

void Host::fail(lua_State *L, Error E) {
  Failure = DetectorError();
  Failure.File = Files.front();
  for (Diagnostic &D : toDiagnostics(std::move(E))) {
    Failure.Message = failureText(D.Message);
    Failure.Hint = failureText(D.Hint);
    break;
  }
  setPlace(lines(L));
  // onError() knows by it that the failure is described already.
  lua_pushlightuserdata(L, this);
}

/// A remedy for what Lua itself complains about.
static std::string hintFor(StringRef Message) {
  if (Message.contains("nil value") || Message.contains("with nil") ||
      Message.contains("got nil"))
    return "a field of a row is nil where the case has no value; name the "
           "column in `needs` or test the value first";
  if (Message.contains("'<\\"))
    return "save the file as UTF-8, and write quotes and signs as on a plain "
           "keyboard";
  if (Message.contains("expected near") ||
      Message.contains("expected (to close") ||
      Message.contains("unexpected symbol near"))
    return "an `end`, a bracket or a comma may be missing further up; of a "
           "detector 'culprit check' tells which";
  if (Message.starts_with("C stack overflow"))
    return "the code is nested too deeply";
  if (Message.contains("stack overflow"))
    return "a function calls itself without end";
  return "";
}

void Host::describe(lua_State *L, StringRef Message) {
  Failure = DetectorError();
  Failure.File = Files.front();
  std::vector<ScriptLine> Lines = lines(L);
  // Lua writes "chunk0:13: what". error("what", 2) blames the caller's line.
  StringRef Rest = Message;
  ScriptLine At;
  if (Rest.consume_front(ChunkName) && !Rest.consumeInteger(10, At.Chunk) &&
      Rest.consume_front(":") && !Rest.consumeInteger(10, At.Line) &&
      Rest.consume_front(": ") && At.Chunk < Files.size()) {
    Message = Rest;
    ArrayRef<ScriptLine> Outer = Lines;
    while (!Outer.empty() && Outer.front() != At)
      Outer = Outer.drop_front();
    // A file that does not compile is not among the functions being run, but
    // those that asked for it are.
    if (Outer.empty())
      Lines.insert(Lines.begin(), At);
    else
      Lines = Outer.vec();
  }
  setPlace(Lines);
  if (Message.starts_with("stack overflow")) // Lua adds its own traceback
    Message = "stack overflow";
  Failure.Message = failureText(Message);
  Failure.Hint = hintFor(Message);
  if (!Lines.empty() && Message.contains("nil") && !Message.ends_with(")"))
    nameNil(L, Lines.front());
}

/// Adds to the failure which expression of the line \p At was nil, where Lua
/// did not say and the line leaves no doubt.
void Host::nameNil(lua_State *L, ScriptLine At) {
  if (At.Chunk >= Texts.size())
    return;
  StringRef Text = Texts[At.Chunk];
  for (unsigned Line = 1; Line < At.Line; ++Line)
    Text = Text.split('\n').second;
  lua_Debug Frame;
  int Level = 0;
  while (lua_getstack(L, Level, &Frame) && lineOf(L, Frame) != At)
    ++Level;
  if (!lua_getstack(L, Level, &Frame))
    return;
  NilName Found = findNil(Failure.Message, Text.split('\n').first,
                          [&](StringRef Name, StringRef Field) {
                            return isNilLocal(L, Frame, Name, Field);
                          });
  if (Found.Text.empty())
    return;
  Failure.Message += " (" + printable(Found.Text) + ")";
  if (!Found.Hint.empty())
    Failure.Hint = Found.Hint;
}

int Host::onError(lua_State *L) {
  Host &H = Host::of(L);
  if (lua_touserdata(L, 1) == &H)
    return 1;
  if (lua_isstring(L, 1)) {
    size_t Length;
    const char *Text = lua_tolstring(L, 1, &Length);
    H.describe(L, StringRef(Text, Length));
  } else {
    H.describe(L, lua_isnil(L, 1)
                      ? "error() was called without a message"
                      : "error() wants a text, not a value of another type");
  }
  lua_pushlightuserdata(L, &H);
  return 1;
}

bool Host::run(function_ref<void(lua_State *)> Body) {
  Deadline WithinVerbs(Ends);
  int Status = LUA_ERRMEM;
  if (State) {
    lua_settop(State, 0);
    lua_CFunction Enter = [](lua_State *L) {
      auto *Body =
          static_cast<function_ref<void(lua_State *)> *>(lua_touserdata(L, 1));
      lua_settop(L, 0);
      (*Body)(L);
      return 0;
    };
    lua_pushcfunction(State, onError);
    lua_pushcfunction(State, Enter);
    lua_pushlightuserdata(State, &Body);
    Status = lua_pcall(State, 1, 0, 1);
  }
  if (Status == LUA_OK)
    return true;
  if (Status == LUA_ERRMEM) {
    Failure = DetectorError();
    Failure.File = Files.front();
    Failure.Message = "needs more than " +
                      formatBytes(static_cast<double>(Bounds.Memory)) +
                      " of script memory";
    Failure.Hint = "keep rows in tables of the case, not in Lua tables or "
                   "strings: verbs take no script memory";
    if (LinesAtRefusal.size() == MaxLines) {
      // So deep a stack is what took the memory.
      Failure.Message = "stack overflow";
      Failure.Hint = hintFor(Failure.Message);
    }
    setPlace(LinesAtRefusal);
  } else if (Failure.Message.empty()) {
    Failure.File = Files.front();
    Failure.Message = "failed while an error was handled";
  }
  return false;
}

/// Compiles \p Source as chunk \p Number, if \p Code does not have it, and
/// runs it for one value.
static void runChunk(lua_State *L, StringRef Source, size_t Number,
                     const ByteCode &Code) {
  Source.consume_front("\xef\xbb\xbf"); // of an editor of Windows
  // On Lua's own stack: an error leaves this function without its locals'
  // destructors where Lua was built as C.
  lua_pushfstring(L, "=%s%d", ChunkName.data(), static_cast<int>(Number));
  Code.push(L, Source, lua_tostring(L, -1));
  lua_remove(L, -2);
  pushEnvironment(L);
  lua_setupvalue(L, -2, 1); // _ENV is the only upvalue of a chunk
  if (Costs *Times = Host::of(L).costs())
    Times->tick({}); // what came before is of no line
  lua_call(L, 0, 1);
}

/// Fails for what nobody writes by hand: the time that Lua takes to compile can
/// grow with the square of the length, and no hook stops it.
static void checkLength(lua_State *L, StringRef Name, StringRef Source) {
  if (Source.size() <= MaxSourceBytes)
    return;
  Host::of(L).fail(
      L, failure("'" + Name + "' has " +
                     formatBytes(static_cast<double>(Source.size())) +
                     "; Lua of a detector may have " +
                     formatBytes(static_cast<double>(MaxSourceBytes)),
                 "share code in modules, and keep data out of it"));
  lua_error(L);
}

void Host::load(lua_State *L, StringRef Source, const ByteCode &Code) {
  checkLength(L, Files.front(), Source);
  openSandbox(L);
  Texts.assign(1, Source);
  runChunk(L, Source, 0, Code);
}

void Host::loadAs(lua_State *L, size_t Number, StringRef Name, StringRef Source,
                  const ByteCode &Code) {
  checkLength(L, Name, Source);
  Files.resize(std::max(Files.size(), Number + 1));
  Texts.resize(Files.size());
  Files[Number] = Name.str();
  Texts[Number] = Source;
  runChunk(L, Source, Number, Code);
}

void Host::loadMore(lua_State *L, StringRef Name, StringRef Source) {
  // Modules have their numbers.
  size_t Number = std::max(Files.size(), Modules ? Modules->end() : 0);
  More.push_back({Source.str(), std::make_unique<ByteCode>()});
  loadAs(L, Number, Name, More.back().first, *More.back().second);
}

void Host::loadModule(lua_State *L, const ModuleSet::Module &M) {
  loadAs(L, M.Number, M.File, M.Source, *M.Code);
}

Error Host::charge(lua_State *L, size_t Bytes) {
  // A full collection costs a few us on the small heap of a detector.
  size_t Step = std::min(TableLimit / 4, size_t(256) << 20);
  if (Tables + Bytes > TablesAtCollection + Step) {
    lua_gc(L, LUA_GCCOLLECT);
    TablesAtCollection = Tables;
  }
  if (Tables + Bytes > TableLimit)
    return failure("holds more than " +
                       formatBytes(static_cast<double>(TableLimit)) +
                       " of tables at a time",
                   "filter with `where` before sorting, joining or adding "
                   "columns, and keep fewer tables in variables");
  Tables += Bytes;
  if (Times)
    Times->addBytes(Bytes);
  return Error::success();
}

} // namespace culprit
