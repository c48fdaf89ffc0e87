//===- StubX86_64.cpp - The instructions of a borrowed thread ---*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
///
/// \file
/// Never run here: the bytes between the labels are copied into a process. The
/// registers are all ours on entry, the signal frame has the thread's own.
///
///   rbx  CallBlock      r12  the fresh stack    r13  CallResults
///   r14  token          r15  address of errno, or 0
///
/// A fresh stack, since the thread's may be small; its own stays as it is,
/// above what lies there for this call. Results are written in the order
/// Value, Error, Done, which is the order another x86 processor sees.
///
/// A wait that the kernel can resume by restart_syscall, with what is left of
/// its time, is known to the kernel alone, and rt_sigreturn makes it forget:
/// the stub then restores the registers itself. Of those, rcx and r11 are lost
/// in any system call, and serve it for the last step.
///
//===----------------------------------------------------------------------===//

#include "Attach/StubX86_64.h"

#if defined(__x86_64__)

asm(R"(
        .pushsection .rodata.culprit_call_stub, "a", @progbits
        .balign 16
        .globl  culpritCallStub
        .hidden culpritCallStub
culpritCallStub:
        cld
        # rt_sigprocmask(SIG_SETMASK, &Blocked, 0, 8): handlers must not see
        # this, and the threads made by the call inherit the mask.
        movl    $14, %eax
        movl    $2, %edi
        movq    %rbx, %rsi
        xorl    %edx, %edx
        movl    $8, %r10d
        syscall
        # mmap(0, StackSize, READ|WRITE, PRIVATE|ANONYMOUS|STACK, -1, 0)
        movl    $9, %eax
        xorl    %edi, %edi
        movq    104(%rbx), %rsi
        movl    $3, %edx
        movl    $0x20022, %r10d
        movq    $-1, %r8
        xorl    %r9d, %r9d
        syscall
        movq    48(%rbx), %r13
        movq    56(%rbx), %r14
        movq    %rax, %r12
        movq    %rax, 40(%r13)
        movq    $0, 24(%r13)
        movq    $0, 32(%r13)
        movq    %r14, 8(%r13)           # Started = Token
        cmpq    $-4096, %rax
        ja      .Lculprit_back
        movq    104(%rbx), %rsp
        addq    %r12, %rsp
        xorl    %ebp, %ebp              # the end of the chain of frames
        # errno belongs to the code that was interrupted.
        xorl    %r15d, %r15d
        movq    32(%rbx), %rax
        testq   %rax, %rax
        jz      .Lculprit_call
        call    *%rax
        movq    %rax, %r15
        movl    (%rax), %eax
        movl    %eax, 112(%rbx)
.Lculprit_call:
        movq    16(%rbx), %rdi
        movq    24(%rbx), %rsi
        call    *8(%rbx)
        movq    %rax, 24(%r13)          # Value
        testq   %rax, %rax
        jnz     .Lculprit_errno
        # Asking also clears the message: the program must not find it.
        movq    40(%rbx), %rax
        testq   %rax, %rax
        jz      .Lculprit_errno
        call    *%rax
        movq    %rax, 32(%r13)          # Error
.Lculprit_errno:
        testq   %r15, %r15
        jz      .Lculprit_unmap
        movl    112(%rbx), %eax
        movl    %eax, (%r15)
.Lculprit_unmap:
        # munmap(stack, StackSize), standing on the thread's own.
        movq    %rbx, %rsp
        movl    $11, %eax
        movq    %r12, %rdi
        movq    104(%rbx), %rsi
        syscall
.Lculprit_back:
        # A handled signal that came meanwhile would have ended the wait with
        # EINTR: let it. rt_sigpending(&Pending, 8) & Interrupting
        cmpq    $0, 72(%rbx)
        je      .Lculprit_done
        movl    $127, %eax
        leaq    96(%rbx), %rdi
        movl    $8, %esi
        syscall
        movq    96(%rbx), %rax
        testq   72(%rbx), %rax
        jz      .Lculprit_done
        movq    80(%rbx), %rcx
        addq    $2, (%rcx)              # behind the syscall instruction
        movq    88(%rbx), %rcx
        movq    $-4, (%rcx)             # -EINTR
        movq    $0, 120(%rbx)           # nothing to resume
.Lculprit_done:
        movq    %r14, 16(%r13)          # Done = Token
        movq    64(%rbx), %rcx
        jrcxz   .Lculprit_trap
        movq    120(%rbx), %rdi
        testq   %rdi, %rdi
        jnz     .Lculprit_resume
        movq    %rcx, %rsp
        movl    $15, %eax               # rt_sigreturn
        syscall
        ud2
.Lculprit_trap:
        int3
        .globl  culpritCallStubTrapped
        .hidden culpritCallStubTrapped
culpritCallStubTrapped:
        ud2
.Lculprit_resume:
        movl    $-1, %eax
        movl    $-1, %edx
        xrstor64 (%rdi)
        # rt_sigprocmask(SIG_SETMASK, the frame's mask, 0, 8). A handler runs
        # below the frame here; after it restart_syscall is -EINTR, as it
        # should be.
        movl    $14, %eax
        leaq    296(%rcx), %rsi
        movl    $2, %edi
        xorl    %edx, %edx
        movl    $8, %r10d
        syscall
        movq    64(%rbx), %rcx
        pushq   176(%rcx)
        popfq
        movq    40(%rcx), %r8
        movq    48(%rcx), %r9
        movq    56(%rcx), %r10
        movq    72(%rcx), %r12
        movq    80(%rcx), %r13
        movq    88(%rcx), %r14
        movq    96(%rcx), %r15
        movq    104(%rcx), %rdi
        movq    112(%rcx), %rsi
        movq    120(%rcx), %rbp
        movq    128(%rcx), %rbx
        movq    136(%rcx), %rdx
        movq    144(%rcx), %rax
        movq    160(%rcx), %r11
        movq    168(%rcx), %rcx
        # From here on the frame may be overwritten by a handler.
        movq    %r11, %rsp
        jmpq    *%rcx
        .balign 8, 0x90
        .globl  culpritCallStubEnd
        .hidden culpritCallStubEnd
culpritCallStubEnd:
        .popsection
)");

#endif
