//===- RemoteCallX86_64.cpp - Borrowing a thread on x86-64 ------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "Attach/RemoteCall.h"

#if defined(__x86_64__)

#include "Attach/FrameX86_64.h"
#include <cerrno>
#include <csignal>
#include <cstddef>
#include <elf.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>

namespace culprit::attach {

/// Errors that a system call never returns to a program: the kernel resumes
/// the call (include/linux/errno.h).
static constexpr long RestartSys = -512, RestartNoIntr = -513,
                      RestartNoHand = -514, RestartBlock = -516;
static constexpr uint64_t TrapFlag = 0x100, DirectionFlag = 0x400;
static constexpr uint64_t UserCode = 0x33; ///< cs of 64-bit code.
/// What a call needs for its stack: dlopen takes 20 KiB, constructors of other
/// libraries that come along may want more.
static constexpr uint64_t StackSize = 256 << 10;
/// That a thread's stack must have left below the piece.
static constexpr uint64_t StackReserve = 1024;
/// A program's own stacks for coroutines are not taken: the distance from the
/// thread's control block, which lies at the top of a thread's stack.
static constexpr uint64_t MaxStackDepth = uint64_t(1) << 30;

static constexpr uint64_t bit(int Signal) {
  return uint64_t(1) << (Signal - 1);
}
/// All but those that a fault raises: blocked, the kernel would reset the
/// program's handler for them and kill it.
static constexpr uint64_t BlockedDuringCall =
    ~(bit(SIGSEGV) | bit(SIGBUS) | bit(SIGILL) | bit(SIGFPE) | bit(SIGTRAP) |
      bit(SIGSYS));

namespace {

class X86Caller final : public RemoteCaller {
public:
  X86Caller(const ProcessMemory &Memory, const ProcessMaps &Maps,
            const WaitText &Text, const LinkMap &Links)
      : Memory(Memory), Maps(Maps), Text(Text), Links(Links) {}

  llvm::ArrayRef<uint8_t> code() const override {
    return {culpritCallStub, culpritCallStubEnd};
  }
  llvm::StringRef reason() const override { return Reason; }

  Outcome start(Tracee &T, const CallRequest &Request, Place At,
                bool Trapping) override;
  bool finishTrapped(Tracee &T, Tracee::Clock::duration Timeout) override;
  void hideStop(Tracee &T) override;
  bool setBreakpoint(Tracee &T, uint64_t Address) override;
  uint64_t pc(Tracee &T) override;
  uint64_t returnAddress(Tracee &T) override;

private:
  Outcome unfit(const char *Why) {
    Reason = Why;
    return Outcome::Unfit;
  }
  bool registers(Tracee &T, user_regs_struct &R) const {
    size_t Size = sizeof R;
    return T.readSet(NT_PRSTATUS, &R, Size) && Size == sizeof R;
  }
  const char *rewindWait(Tracee &T, user_regs_struct &R, uint64_t Mask,
                         long &Number, bool &Resuming) const;
  bool hasStack(const user_regs_struct &R, size_t Room) const;

  const ProcessMemory &Memory;
  const ProcessMaps &Maps;
  const WaitText &Text;
  const LinkMap &Links;
  VectorLayout Layout;
  std::string Reason;
  FrameRequest Saved; ///< Of a trapped call.
  uint64_t TrapEnd = 0;
};

/// Makes the registers of a thread blocked in a wait those with which it
/// enters the wait again. Null, or why the thread is in no such wait.
/// \p Resuming is set when the kernel resumes it with what is left of its time,
/// which it forgets in rt_sigreturn.
const char *X86Caller::rewindWait(Tracee &T, user_regs_struct &R,
                                  uint64_t Mask, long &Number,
                                  bool &Resuming) const {
  SystemCall Call;
  Call.Pc = R.rip;
  Call.Arguments = {R.rdi, R.rsi, R.rdx, R.r10, R.r8, R.r9};
  Call.Number = originalNumber(long(R.orig_rax), R.rip, Memory);
  long Result = long(R.rax);
  bool Resumes = Result == RestartSys || Result == RestartNoIntr ||
                 Result == RestartNoHand || Result == RestartBlock;
  bool Ended = Result == -EINTR && failsWhenStopped(Call.Number);
  if (long(R.orig_rax) < 0 || !(Resumes || Ended))
    return "it left its wait";
  if (rankWait(Call) == WaitRank::None || !Text.contains(R.rip))
    return "it went into another wait";
  if (T.hasPendingSignal(Mask))
    return "a signal is waiting for it";
  uint8_t Code[2];
  if (!Memory.read(R.rip - 2, Code, 2) || Code[0] != 0x0f || Code[1] != 0x05)
    return "its system call was not made by the instruction for it";
  Number = Call.Number;
  R.rip -= 2;
  Resuming = Result == RestartBlock;
  R.rax = uint64_t(Resuming ? SYS_restart_syscall : Call.Number);
  return nullptr;
}

/// Is the stack a thread's own, with \p Room bytes below its pointer?
bool X86Caller::hasStack(const user_regs_struct &R, size_t Room) const {
  const Mapping *Stack = Maps.find(R.rsp);
  if (!Stack || !Stack->Writable || R.rsp - Stack->Begin < Room + StackReserve)
    return false;
  if (Stack->Path == "[stack]")
    return true;
  return R.fs_base > R.rsp && R.fs_base - R.rsp < MaxStackDepth &&
         Stack->contains(R.fs_base);
}

RemoteCaller::Outcome X86Caller::start(Tracee &T, const CallRequest &Request,
                                       Place At, bool Trapping) {
  user_regs_struct R;
  FrameRequest &Frame = Saved;
  Frame = {};
  // A page more than the processor's features, to see if there are others.
  Frame.Vectors.resize(Layout.wholeSize() + 4096);
  if (!registers(T, R) || !T.signalMask(Frame.Mask))
    return unfit("its registers cannot be read");
  if ((R.cs & 0xffff) != UserCode)
    return unfit("it runs 32-bit code");
  Frame.Registers = R;
  long Number = -1;
  if (At == Place::Wait)
    if (const char *Why =
            rewindWait(T, Frame.Registers, Frame.Mask, Number, Frame.Resuming))
      return unfit(Why);
  if (!Links.isConsistent())
    return unfit("the dynamic linker is loading or unloading a library");
  size_t VectorSize = Frame.Vectors.size();
  if (!T.readSet(NT_X86_XSTATE, Frame.Vectors.data(), VectorSize) ||
      VectorSize < 576)
    return unfit("its vector registers cannot be read");
  Frame.Vectors.resize(VectorSize);
  if (!hasStack(R, frameRoom(VectorSize, Request.Path.size())))
    return unfit("its stack is not a thread's or has too little room");

  Frame.Path = Request.Path;
  Frame.Trapping = Trapping;
  CallBlock &B = Frame.Block;
  B.Blocked = BlockedDuringCall;
  B.Function = Request.Function;
  Frame.KeepArgument = Request.First.has_value();
  B.Argument0 = Request.First.value_or(0);
  B.Argument1 = Request.Number;
  B.ErrnoLocation = Request.ErrnoLocation;
  B.ErrorText = Request.ErrorText;
  B.Results = Request.Results;
  B.Token = Request.Token;
  B.StackSize = StackSize;
  if (At == Place::Wait && endsBySignal(Number))
    B.Interrupting = Request.Caught & ~Frame.Mask & BlockedDuringCall;
  FramePiece Piece = makeFrame(Frame, Layout);
  if (!Request.CodeWritten &&
      !T.poke(Request.Code, code().data(), code().size()))
    return unfit("the instructions cannot be written");
  if (!Memory.write(Piece.Address, Piece.Bytes.data(), Piece.Bytes.size()))
    return unfit("its stack cannot be written");

  user_regs_struct Next = R;
  Next.rip = Request.Code;
  Next.rbx = Piece.Address;
  Next.rsp = Piece.Address;
  Next.rax = 0;
  Next.orig_rax = ~0ull; // In no system call: nothing to resume.
  Next.eflags &= ~(TrapFlag | DirectionFlag);
  if (!T.writeSet(NT_PRSTATUS, &Next, sizeof Next))
    return unfit("its registers cannot be written");
  // The stub blocks signals itself; now already, none takes its stack. Only
  // after the registers: a mask left behind by a killed tracer would stay.
  T.setSignalMask(BlockedDuringCall);
  if (!Trapping) {
    T.detach();
    return Outcome::Started;
  }
  Saved.Path = {};
  TrapEnd = Request.Code + uint64_t(culpritCallStubTrapped - culpritCallStub);
  return T.resume() ? Outcome::Trapped : unfit("it cannot be resumed");
}

bool X86Caller::finishTrapped(Tracee &T, Tracee::Clock::duration Timeout) {
  for (;;) {
    Tracee::Stop Why = T.wait(Timeout);
    if (Why == Tracee::Stop::Gone || Why == Tracee::Stop::Timeout)
      return false;
    if (Why == Tracee::Stop::Signal && T.signal() == SIGTRAP &&
        pc(T) == TrapEnd)
      break;
    T.resume(Why == Tracee::Stop::Signal ? T.signal() : 0);
  }
  Saved.Registers.orig_rax = ~0ull;
  bool Restored =
      T.writeSet(NT_X86_XSTATE, Saved.Vectors.data(), Saved.Vectors.size());
  Restored &= T.writeSet(NT_PRSTATUS, &Saved.Registers, sizeof Saved.Registers);
  Restored &= T.setSignalMask(Saved.Mask);
  return T.detach() && Restored;
}

void X86Caller::hideStop(Tracee &T) {
  user_regs_struct R;
  uint64_t Mask;
  if (!registers(T, R) || long(R.orig_rax) < 0 || long(R.rax) != -EINTR ||
      !failsWhenStopped(long(R.orig_rax)) || !T.signalMask(Mask) ||
      T.hasPendingSignal(Mask))
    return;
  uint8_t Code[2];
  if (!Memory.read(R.rip - 2, Code, 2) || Code[0] != 0x0f || Code[1] != 0x05)
    return;
  R.rax = R.orig_rax;
  R.rip -= 2;
  R.orig_rax = ~0ull;
  T.writeSet(NT_PRSTATUS, &R, sizeof R);
}

bool X86Caller::setBreakpoint(Tracee &T, uint64_t Address) {
  auto Poke = [&](unsigned Register, uint64_t Value) {
    return ptrace(PTRACE_POKEUSER, T.tid(),
                  offsetof(struct user, u_debugreg) + Register * 8,
                  Value) == 0;
  };
  // Register 7: bit 0 enables the first breakpoint; length and kind 0 are an
  // instruction.
  if (Address == 0)
    return Poke(7, 0);
  return Poke(7, 0) && Poke(0, Address) && Poke(7, 1);
}

uint64_t X86Caller::pc(Tracee &T) {
  user_regs_struct R;
  return registers(T, R) ? R.rip : 0;
}

uint64_t X86Caller::returnAddress(Tracee &T) {
  user_regs_struct R;
  if (!registers(T, R))
    return 0;
  return Memory.get<uint64_t>(R.rsp).value_or(0);
}

} // namespace

std::unique_ptr<RemoteCaller> RemoteCaller::create(const ProcessMemory &Memory,
                                                   const ProcessMaps &Maps,
                                                   const WaitText &Text,
                                                   const LinkMap &Links) {
  return std::make_unique<X86Caller>(Memory, Maps, Text, Links);
}

} // namespace culprit::attach

#endif
