//===- ErrorRolesTest.cpp ---------------------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "Case/Case.h"
#include "Case/ErrorNature.h"
#include "gtest/gtest.h"

using namespace culprit;
using llvm::StringRef;

/// What one log says; times are seconds of a day in 2026.
struct Log {
  std::unique_ptr<Source> S;
  static constexpr double Day = 20533 * 86400.0;

  Log(CaseBuilder &Builder, StringRef Path)
      : S(std::make_unique<Source>(Path.str(), Builder.pool())) {
    S->Run = "run";
  }
  Log &error(int64_t Line, StringRef Type, StringRef Signature,
             StringRef Message, std::optional<int64_t> Rank = {},
             std::optional<double> Time = {}, StringRef Frames = "") {
    TableBuilder &T = S->table(TableId::errors);
    T.addRow();
    T.set(errors::type, Type);
    if (!Signature.empty())
      T.set(errors::signature, Signature);
    T.set(errors::message, Message);
    if (!Frames.empty())
      T.set(errors::frames, Frames);
    if (Rank)
      T.set(errors::rank, *Rank);
    T.set(errors::source, StringRef(S->path()));
    T.set(errors::line, Line);
    if (Time)
      T.set(errors::wall_time, Day + *Time);
    return *this;
  }
  Log &xid(int64_t Line, StringRef Code, StringRef Signature,
           StringRef Device) {
    error(Line, "Xid", Signature, "NVRM: Xid");
    S->table(TableId::errors).set(errors::code, Code);
    S->table(TableId::errors).set(errors::device, Device);
    return *this;
  }
  Log &says(int64_t Line, StringRef Text, std::optional<double> Time = {}) {
    TableBuilder &T = S->table(TableId::log_lines);
    T.addRow();
    T.set(log_lines::source, StringRef(S->path()));
    T.set(log_lines::line, Line);
    T.set(log_lines::text, Text);
    if (Time)
      T.set(log_lines::wall_time, Day + *Time);
    return *this;
  }
  Log &step(int64_t Line, int64_t Step) {
    TableBuilder &T = S->table(TableId::scalars);
    T.addRow();
    T.set(scalars::step, Step);
    T.set(scalars::name, StringRef("loss"));
    T.set(scalars::value, 1.0);
    T.set(scalars::place, Line);
    return *this;
  }
};

class ErrorRoles : public testing::Test {
protected:
  CaseBuilder Builder;

  Log log(StringRef Path) { return Log(Builder, Path); }
  void add(Log &L) { Builder.add(std::move(L.S)); }
  /// "role/aftermath" of each error, nothing for null.
  std::string roles() {
    Case C = Builder.build();
    const Table &T = C.table(TableId::errors);
    std::string Out;
    for (size_t I = 0; I != T.rows(); ++I) {
      const auto Text = [&](StringRef Column) {
        const ColumnView &View = *T.find(Column);
        return View.isNull(I) ? std::string()
                              : T.cell(I, View).text();
      };
      Out += (I ? " " : "") + Text("role") + "/" + Text("aftermath");
    }
    return Out;
  }
};

static constexpr StringRef Timeout =
    "Watchdog caught collective operation timeout";

static ErrorText text(StringRef Type, StringRef Signature, StringRef Message,
                      StringRef Frames = "", StringRef Code = "",
                      StringRef Device = "") {
  return {Type, Code, Signature, Message, Frames, Device, !Frames.empty()};
}

TEST(ErrorNature, IsToldByTheText) {
  EXPECT_EQ(natureOf(text("ValueError", "", "bad")), ErrorNature::Root);
  EXPECT_EQ(natureOf(text("NCCL", "nccl-timeout", "x")), ErrorNature::Sign);
  EXPECT_EQ(natureOf(text("ray.exceptions.ActorDiedError", "", "x")),
            ErrorNature::Report);
  EXPECT_EQ(natureOf(text("ConnectionResetError", "", "x")),
            ErrorNature::Report);
  EXPECT_EQ(natureOf(text("BrokenPipeError", "", "x")), ErrorNature::Stop);
  EXPECT_EQ(natureOf(text("SignalException", "", "Process 1 got signal: 15")),
            ErrorNature::Stop);
  EXPECT_EQ(natureOf(text("AttributeError", "", "x", "a.py:3 __del__")),
            ErrorNature::Stop);
  EXPECT_EQ(natureOf(text("warning", "padding-side", "x")),
            ErrorNature::Note);
  EXPECT_EQ(natureOf(text("warning", "", "consider setting X=1")),
            ErrorNature::Advice);
  EXPECT_EQ(natureOf(text("RuntimeError", "illegal-access",
                          "CUDA error\nFor debugging consider passing X")),
            ErrorNature::Root)
      << "a hint behind an error is no advice";
  EXPECT_EQ(natureOf(text("DistBackendError", "",
                          "NCCL communicator was aborted on rank 4")),
            ErrorNature::Sign);
  EXPECT_EQ(natureOf(text("DistBackendError", "",
                          "Duplicate GPU detected : rank 0 and rank 1")),
            ErrorNature::Root);
}

TEST(ErrorNature, DevicesFailOneByOne) {
  ErrorText Bus = text("Xid", "xid", "", "", "79", "0000:9b:00");
  ErrorText Other = text("Xid", "xid", "", "", "79", "0000:03:00");
  ErrorText Access = text("Xid", "illegal-access", "", "", "31", "0000:9b:00");
  ErrorText Cuda = text("RuntimeError", "", "CUDA error: unknown");
  ErrorText Value = text("ValueError", "", "bad");
  EXPECT_FALSE(explains(Bus, Other));
  EXPECT_TRUE(explains(Bus, Access));
  EXPECT_FALSE(explains(Access, Bus));
  EXPECT_TRUE(explains(Bus, Cuda));
  EXPECT_FALSE(explains(Bus, Value));
  EXPECT_FALSE(explains(Value, Cuda));
}

// Rank 3 fails beside step 2; the timeouts follow ten minutes later.
TEST_F(ErrorRoles, AStormHasOneInitiator) {
  Log L = log("run/train.log");
  L.step(1, 1).step(2, 2);
  L.error(5, "OutOfMemoryError", "cuda-oom", "CUDA out of memory", 3, 100);
  for (int64_t Rank = 0; Rank != 3; ++Rank)
    L.error(6 + Rank, "NCCL", "nccl-timeout", Timeout, Rank, 700 + Rank);
  L.error(9, "SignalException", "", "got signal: 15", 1, 710);
  L.error(10, "ChildFailedError", "rank-exited", "", {}, 711);
  add(L);
  EXPECT_EQ(roles(), "initiating/terminal cascade/terminal cascade/terminal "
                     "cascade/terminal teardown/terminal cascade/terminal");
}

// One log a rank, in the order of names; the last is the first by its stamp.
TEST_F(ErrorRoles, TimeOrdersTheLogsOfRanks) {
  Log A = log("run/rank0.log"), B = log("run/rank1.log");
  A.error(1, "ValueError", "", "bad sample", 0, 200);
  B.error(9, "ValueError", "", "bad sample", 1, 100);
  add(A);
  add(B);
  EXPECT_EQ(roles(), "cascade/ initiating/");
}

TEST_F(ErrorRoles, WithoutTimesTwoRootsInTwoLogsStayUnknown) {
  Log A = log("run/rank0.log"), B = log("run/rank1.log");
  A.error(1, "ValueError", "", "bad sample", 0);
  B.error(9, "KeyError", "", "x", 1);
  B.error(12, "NCCL", "nccl-timeout", Timeout, 1);
  add(A);
  add(B);
  EXPECT_EQ(roles(), "/ / cascade/") << "a timeout comes of one of them";
}

TEST_F(ErrorRoles, WithoutTimesTheOnlyRootIsTheInitiator) {
  Log A = log("run/rank0.log"), B = log("run/rank1.log");
  A.error(1, "NCCL", "nccl-timeout", Timeout, 0);
  B.error(9, "KeyError", "", "x", 1);
  add(A);
  add(B);
  EXPECT_EQ(roles(), "cascade/ initiating/");
}

// The cause of a timeout lies before it by the timeout's length.
TEST_F(ErrorRoles, ATimeoutIsNotCausedByWhatFollows) {
  Log L = log("run/train.log");
  L.error(5, "NCCL", "nccl-timeout", Timeout, 0, 100);
  L.error(6, "RuntimeError", "", "shutdown of X failed", 0, 130);
  add(L);
  EXPECT_EQ(roles(), "initiating/ /");
}

TEST_F(ErrorRoles, ADyingProcessPrintsLate) {
  Log L = log("run/train.log");
  L.error(5, "gloo", "nccl-network", "connection refused", 0, 100);
  L.error(6, "ValueError", "", "bad sample", 1, 104);
  add(L);
  EXPECT_EQ(roles(), "cascade/ initiating/");
}

// A scheduler ends the run; what its ranks then say is no cause.
TEST_F(ErrorRoles, WhoEndedTheRunIsNoConsequence) {
  Log L = log("run/train.log");
  L.error(5, "scheduler", "terminated", "CANCELLED DUE TO PREEMPTION", {}, 100);
  L.error(6, "gloo", "nccl-network", "connection refused", 0, 101);
  L.error(7, "launcher", "rank-exited", "failed (exitcode: 1)", {}, 102);
  add(L);
  EXPECT_EQ(roles(), "initiating/terminal cascade/terminal cascade/");
}

// A launcher ends the others after one has failed.
TEST_F(ErrorRoles, ASignalAfterAFailureIsItsEnd) {
  Log L = log("run/train.log");
  L.error(5, "OutOfMemoryError", "cuda-oom", "CUDA out of memory", 3, 100);
  L.error(6, "signal", "terminated", "got signal: 15", 0, 101);
  add(L);
  EXPECT_EQ(roles(), "initiating/ teardown/");
}

TEST_F(ErrorRoles, ACrashExplainsTheBrokenConnections) {
  Log L = log("run/train.log");
  L.error(5, "crash", "native-crash", "Caught signal 11", {}, 100);
  L.error(6, "NCCL", "nccl-network", "NCCL WARN Net : Call to recv", 1, 101);
  L.error(7, "RuntimeError", "", "NCCL error in: x.cpp, internal error", 1,
          102);
  add(L);
  EXPECT_EQ(roles(), "initiating/ cascade/ cascade/");
}

TEST_F(ErrorRoles, ReportsAloneNameNobody) {
  Log L = log("run/train.log");
  L.error(5, "gloo", "rank-exited", "connection reset by peer", 0);
  L.error(6, "launcher", "rank-exited", "failed (exitcode: 1)", {});
  add(L);
  EXPECT_EQ(roles(), "/terminal /");
}

// Python ends at an uncaught exception: the first of two was caught.
TEST_F(ErrorRoles, TwoUnrelatedErrorsOfOneProcessStayUnknown) {
  Log L = log("run/train.log");
  L.error(5, "ModuleNotFoundError", "", "No module named 'apex'");
  L.error(9, "OutOfMemoryError", "cuda-oom", "CUDA out of memory");
  add(L);
  EXPECT_EQ(roles(), "/ /");
}

TEST_F(ErrorRoles, AContextStaysBroken) {
  Log L = log("run/train.log");
  L.error(5, "RuntimeError", "illegal-access", "CUDA error: illegal", 0);
  L.error(9, "cuBLAS", "", "CUBLAS_STATUS_EXECUTION_FAILED", 0);
  add(L);
  EXPECT_EQ(roles(), "initiating/ cascade/");
}

TEST_F(ErrorRoles, ProgressNeedsTwoStepsAndAcquits) {
  Log L = log("run/train.log");
  L.step(1, 1).step(2, 2).error(3, "ValueError", "", "bad sample", 1);
  L.step(4, 3).step(5, 4);
  L.error(6, "KeyError", "", "x", 1);
  L.step(7, 5); // was on its way
  add(L);
  EXPECT_EQ(roles(), "initiating/progressed initiating/terminal");
}

TEST_F(ErrorRoles, ARestartRecovers) {
  Log L = log("run/train.log");
  L.step(1, 10).step(2, 20).error(3, "ValueError", "", "bad sample", 1);
  L.says(4, "Worker group FAILED. 3/3 attempts left; will restart worker "
            "group");
  L.step(5, 20).step(6, 30).step(7, 40);
  L.error(8, "ValueError", "", "bad sample", 1);
  L.says(9, "no attempts left; will not be restarting from a checkpoint");
  add(L);
  EXPECT_EQ(roles(), "initiating/recovered initiating/terminal")
      << "each attempt has an initiator of its own";
}

TEST_F(ErrorRoles, ARetryBelongsToTheErrorBesideIt) {
  Log L = log("run/train.log");
  L.error(3, "ConnectionError", "", "no route").says(4, "retrying in 5 s");
  L.error(90, "OSError", "", "disk gone");
  add(L);
  EXPECT_EQ(roles(), "/recovered /");
}

TEST_F(ErrorRoles, ATracebackAtTheEndIsTerminal) {
  Log L = log("run/train.log");
  L.says(1, "start").error(2, "ValueError", "", "x", {}, {}, "a.py:1 f");
  L.says(4, "end of traceback");
  add(L);
  EXPECT_EQ(roles(), "initiating/terminal");
}

// 43 and 45 follow 31 on their own device; on another one they stand alone.
TEST_F(ErrorRoles, TheDriverTellsWhatItDid) {
  Log L = log("run/dmesg");
  L.xid(1, "31", "illegal-access", "0000:9b:00");
  L.xid(2, "43", "", "0000:9b:00").xid(3, "45", "", "0000:9b:00");
  L.xid(4, "45", "", "0000:03:00");
  add(L);
  EXPECT_EQ(roles(), "initiating/ cascade/ cascade/ /");
}

// A kernel log without dates must not take the order from logs that have it.
TEST_F(ErrorRoles, AnUndatedKernelLogStandsByItself) {
  Log A = log("run/a.log"), B = log("run/b.log"), K = log("run/dmesg");
  A.error(1, "ValueError", "", "bad sample", 0, 200);
  B.error(9, "ValueError", "", "bad sample", 1, 100);
  K.xid(1, "79", "xid", "0000:9b:00");
  add(A);
  add(B);
  add(K);
  EXPECT_EQ(roles(), "cascade/ initiating/ initiating/");
}

TEST_F(ErrorRoles, WhatTheReaderKnowsStays) {
  Log L = log("run/train.log");
  L.error(1, "KeyError", "", "w", {}, {}, "a.py:1 f");
  L.error(7, "RuntimeError", "keys-mismatch", "cannot load");
  L.S->table(TableId::errors).set(errors::role, StringRef("cascade"));
  add(L);
  EXPECT_EQ(roles(), "initiating/terminal cascade/");
}
