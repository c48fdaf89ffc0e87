//===- ScriptTest.h - Runs detectors over cases made by hand ----*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#ifndef CULPRIT_UNIT_SCRIPT_SCRIPTTEST_H
#define CULPRIT_UNIT_SCRIPT_SCRIPTTEST_H

#include "Detect/Runner.h"
#include "Script/LuaDetector.h"
#include "gtest/gtest.h"
#include <cmath>
#include <cstring>

namespace culprit {

/// A case with a little of everything:
///
///   gpu_work   start  stop  dur  device  kind    name      (all of rank 0)
///      0          0    40    40    0     kernel  gemm_a
///      1         60   100    40    0     kernel  gemm_b
///      2        100   130    30    0     copy    HtoD
///      3        130   140    10    1     kernel  softmax
///   host_calls: two syncs, [40, 55) and [200, 210)
///   scalars: `loss` 2.0 of steps 0 to 29 but 50 at step 20; NaN at 30
///   tensors: x 2x3 int64, y = x shifted left with -100 at the end, f twice
///   logits 1x3x2 with softmax (1/4 3/4), (3/4 1/4), (1/4 3/4); labels 0 1 1
///   attention 1x2x2, of a decoding step 1x1x2; bounds 0 1 of documents
///   none 2^50x0x2^20
class ScriptTest : public testing::Test {
protected:
  ScriptTest() {
    Builder.add(everything(Builder.pool()));
    C = Builder.build();
  }

  /// The source of the case above.
  std::unique_ptr<Source> everything(StringPool &Pool) {
    auto S = std::make_unique<Source>("run/p.json", Pool);
    S->Format = "test";
    struct Work {
      int64_t Start, Stop, Device;
      const char *Kind, *Name;
    };
    for (const Work &W : {Work{0, 40, 0, "kernel", "gemm_a"},
                          {60, 100, 0, "kernel", "gemm_b"},
                          {100, 130, 0, "copy", "HtoD"},
                          {130, 140, 1, "kernel", "softmax"}}) {
      TableBuilder &B = S->table(TableId::gpu_work);
      B.addRow();
      B.set(gpu_work::start, W.Start);
      B.set(gpu_work::stop, W.Stop);
      B.set(gpu_work::dur, W.Stop - W.Start);
      B.set(gpu_work::rank, int64_t(0));
      B.set(gpu_work::device, W.Device);
      B.set(gpu_work::kind, llvm::StringRef(W.Kind));
      B.set(gpu_work::name, llvm::StringRef(W.Name));
      B.set(gpu_work::place, W.Start + 7);
    }
    for (auto [Start, Stop] :
         {std::pair<int64_t, int64_t>(40, 55), {200, 210}}) {
      TableBuilder &B = S->table(TableId::host_calls);
      B.addRow();
      B.set(host_calls::start, Start);
      B.set(host_calls::stop, Stop);
      B.set(host_calls::dur, Stop - Start);
      B.set(host_calls::role, llvm::StringRef("sync"));
      B.set(host_calls::rank, int64_t(0));
    }
    for (int64_t Step = 0; Step != 31; ++Step) {
      TableBuilder &B = S->table(TableId::scalars);
      B.addRow();
      B.set(scalars::name, llvm::StringRef("loss"));
      B.set(scalars::metric, llvm::StringRef("loss"));
      B.set(scalars::step, Step);
      B.set(scalars::value, Step == 20   ? 50.0
                            : Step == 30 ? std::nan("")
                                         : 2.0 + 0.01 * double(Step % 3));
    }
    addTensor(*S, "x", ids({1, 2, 3, 4, 5, 6}));
    addTensor(*S, "y", ids({2, 3, -100, 5, 6, -100}));
    addTensor(*S, "f", floats({1, 2, 3, 4, 5, 6}), "full");
    addTensor(*S, "f", floats({1, 2, 3, 4, 5, 8}), "cached");
    float Ln3 = std::log(3.0f);
    addTensor(*S, "logits", floats({0, Ln3, Ln3, 0, 0, Ln3}, {1, 3, 2}));
    addTensor(*S, "labels", ids({0, 1, 1}, {1, 3}));
    addTensor(*S, "column", ids({0, 1, 1}, {1, 3, 1}));
    addTensor(*S, "head", floats({1, 0, 0, 1, 0.5f, 0.4f}, {3, 2}));
    addTensor(*S, "more", ids({1, 2, 2, 0, 0, 0}));
    addTensor(*S, "attention", floats({0.9f, 0.1f, 0.5f, 0.5f}, {1, 2, 2}));
    addTensor(*S, "decoding", floats({0.3f, 0.7f}, {1, 1, 2}));
    addTensor(*S, "bounds", ids({0, 1}, {2}));
    addTensor(*S, "rows",
              floats({1, 0, 0, 1, 1, 0, 0.25f, 0.75f}, {2, 2, 2}));
    addTensor(*S, "through", ids({0, 1, 3}, {3}));
    addTensor(*S, "none", floats({}, {int64_t(1) << 50, 0, 1 << 20}));
    return S;
  }

  using Shape = llvm::SmallVector<int64_t, 4>;
  TensorView ids(std::vector<int64_t> Values, Shape Dims = {2, 3}) {
    return view(DType::Int64, Values, std::move(Dims));
  }
  TensorView floats(std::vector<float> Values, Shape Dims = {2, 3}) {
    return view(DType::Float32, Values, std::move(Dims));
  }
  template <class T>
  TensorView view(DType Type, const std::vector<T> &Values, Shape Dims) {
    TensorView View;
    View.Type = Type;
    View.Shape = std::move(Dims);
    auto Bytes = std::make_shared<std::vector<uint8_t>>(Values.size() *
                                                        sizeof(T));
    if (!Values.empty())
      std::memcpy(Bytes->data(), Values.data(), Bytes->size());
    View.Bytes = *Bytes;
    Buffers.push_back(std::move(Bytes));
    return View;
  }
  static void addTensor(Source &S, const char *Name, TensorView Data,
                        const char *Variant = "") {
    TensorRecord Record;
    Record.Name = Name;
    Record.Layer = Name;
    Record.Role = "value";
    Record.Variant = Variant;
    Record.Step = 1;
    Record.Order = 0;
    Record.Data = std::move(Data);
    S.addTensor(std::move(Record));
  }

  /// A whole file around \p Body, the body of `run`, on line 6.
  static std::string file(llvm::StringRef Body) {
    return ("return {\n  api = 1, summary = \"s\",\n"
            "  needs = { gpu_work = { \"start\" } },\n"
            "  symptoms = { \"gpu-idle\" },\n  run = function(case)\n" +
            Body + "\n  end,\n}\n")
        .str();
  }

  /// Loads \p Source and runs it.
  Outcome runFile(llvm::StringRef Source) {
    LoadSettings Settings;
    Settings.Bounds = Bounds;
    Settings.Modules = std::make_shared<ModuleSet>(Modules);
    auto Loaded = loadDetector("t/d", "plugins/t/d.lua", Source, Settings);
    if (auto *Broken = std::get_if<BrokenDetector>(&Loaded)) {
      Outcome Out;
      Out.Detector = Broken->Id;
      Out.Kind = OutcomeKind::Failed;
      Out.Error = Broken->Error;
      return Out;
    }
    const Detector &D = *std::get<std::unique_ptr<Detector>>(Loaded);
    std::vector<Scalar> Options;
    for (const OptionSpec &Option : D.info().Options)
      Options.push_back(Option.Default);
    return runDetector(D, C, Options, Bounds);
  }
  Outcome run(llvm::StringRef Body) { return runFile(file(Body)); }

  /// What \p Expression is as text, or the error.
  std::string eval(llvm::StringRef Expression) {
    Outcome Out = run(("log(" + Expression + ")").str());
    if (Out.Kind == OutcomeKind::Failed)
      return error(Out);
    return Out.Log.empty() ? "" : Out.Log.front();
  }
  /// The error of \p Body: "6: message (hint)".
  std::string failureOf(llvm::StringRef Body) { return error(run(Body)); }

  static std::string error(const Outcome &O) {
    if (!O.Error)
      return "no error";
    std::string Out = std::to_string(O.Error->Line) + ": " + O.Error->Message;
    if (!O.Error->Hint.empty())
      Out += " (" + O.Error->Hint + ")";
    return Out;
  }

  std::vector<std::shared_ptr<std::vector<uint8_t>>> Buffers;
  CaseBuilder Builder;
  Case C;
  Limits Bounds;
  ModuleSet Modules; ///< What `require` finds.
};

/// That \p Text begins with \p Start, with a readable failure.
inline testing::AssertionResult startsWith(const std::string &Text,
                                           llvm::StringRef Start) {
  if (llvm::StringRef(Text).starts_with(Start))
    return testing::AssertionSuccess();
  return testing::AssertionFailure() << "got: " << Text;
}

} // namespace culprit

#endif // CULPRIT_UNIT_SCRIPT_SCRIPTTEST_H
