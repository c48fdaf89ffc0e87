//===- ProjectLines.cpp -----------------------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "Readers/ProjectLines.h"
#include "Readers/LogPlace.h"
#include "Support/LooseJson.h"
#include "llvm/ADT/StringExtras.h"

using namespace llvm;

namespace culprit {

namespace {
/// Reads a line word by word. Blanks between them do not matter.
class Words {
public:
  explicit Words(StringRef Text) : Rest(Text) {}

  /// Takes \p Text if it comes next.
  bool take(StringRef Text) {
    Rest = Rest.ltrim();
    return Rest.consume_front(Text);
  }
  /// Takes a number, and what is joined to it: 12,345 and 1.5s.
  std::optional<double> number() {
    Rest = Rest.ltrim();
    StringRef Written = Rest.take_front(40).take_while([](char C) {
      return isAlnum(C) || StringRef("+-.,").contains(C);
    });
    StringRef Digits = Written.rtrim(",");
    std::optional<double> Value = parseNumber(Digits);
    while (!Value && !Digits.empty() && isAlpha(Digits.back())) {
      Digits = Digits.drop_back();
      Value = parseNumber(Digits);
    }
    if (Value)
      Rest = Rest.drop_front(Digits.size());
    return Value;
  }
  StringRef rest() const { return Rest; }

private:
  StringRef Rest;
};

/// The number that follows \p Name in one of the parts of \p Text between " : "
/// of Marian.
std::optional<double> partOf(StringRef Text, StringRef Name) {
  while (!Text.empty()) {
    auto [Part, More] = Text.split(" : ");
    if (Words W(Part); W.take(Name))
      return W.number();
    Text = More;
  }
  return std::nullopt;
}
} // namespace

static void add(ProjectLine &Out, StringRef Name, std::optional<double> Value) {
  if (Value)
    Out.Values.push_back({Name.str(), *Value});
}

/// marian-nmt/marian-dev src/training/scheduler.h. A validation has its metric
/// where training has the sentences: "[valid] Ep. 1 : Up. 100 : cross-entropy :
/// 9.1 : new best".
static std::optional<ProjectLine> marian(StringRef Body) {
  const bool Validation = Body.consume_front("[valid] ");
  if (!Body.starts_with("Ep. "))
    return std::nullopt;
  std::optional<double> Step = partOf(Body, "Up. ");
  if (!Step)
    return std::nullopt;
  ProjectLine Out;
  Out.Step = *Step;
  if (Validation) {
    auto [Name, Value] = Body.split(" : ").second.split(" : ").second.split(
        " : ");
    add(Out, ("val/" + Name).str(), parseNumber(Value.split(" : ").first));
    return Out;
  }
  add(Out, "loss", partOf(Body, "Cost "));
  add(Out, "grad_norm", partOf(Body, "gNorm "));
  add(Out, "lr", partOf(Body, "L.r. "));
  for (StringRef Rest = Body; !Rest.empty(); Rest = Rest.split(" : ").second)
    if (StringRef Part = Rest.split(" : ").first; Part.ends_with(" words/s"))
      add(Out, "throughput", Words(Part).number());
  return Out;
}

/// NVIDIA/tacotron2 train.py, and the many that began as it.
static std::optional<ProjectLine> tacotron(StringRef Body) {
  Words W(Body);
  ProjectLine Out;
  if (W.take("Validation loss ")) {
    std::optional<double> Step = W.number();
    if (!Step || !W.take(":"))
      return std::nullopt;
    Out.Step = *Step;
    add(Out, "val_loss", W.number());
    return Out;
  }
  if (!W.take("Train loss "))
    return std::nullopt;
  std::optional<double> Step = W.number(), Loss = W.number();
  if (!Step || !Loss || !W.take("Grad Norm "))
    return std::nullopt;
  Out.Step = *Step;
  add(Out, "loss", Loss);
  add(Out, "grad_norm", W.number());
  if (std::optional<double> Time = W.number(); Time && W.take("s/it"))
    add(Out, "step_time", Time);
  return Out;
}

/// wenet-e2e/wenet wenet/utils/executor.py and, since, train_utils.py, which
/// writes "TRAIN | steps/sec 1.5| Batch 0/100 ...".
static std::optional<ProjectLine> wenet(StringRef Body) {
  if (!Body.consume_front("TRAIN "))
    return std::nullopt;
  size_t At = Body.find("Batch ");
  if (At > 40)
    return std::nullopt;
  Words W(Body.drop_front(At + 6));
  std::optional<double> Epoch = W.number();
  if (!Epoch || !W.take("/"))
    return std::nullopt;
  std::optional<double> Step = W.number();
  if (!Step || !W.take("loss "))
    return std::nullopt;
  ProjectLine Out;
  Out.Epoch = *Epoch;
  Out.Step = *Step;
  SmallVector<LoggedPair, 32> Pairs;
  StringRef Rest(W.rest().begin() - 5, W.rest().size() + 5);
  findPairs(Rest, Pairs);
  for (const LoggedPair &P : Pairs)
    if (!P.Key.contains(' ') && P.Key != "rank")
      add(Out, P.Key, P.Value);
  return Out;
}

/// XPixelGroup/BasicSR basicsr/utils/logger.py: losses without a word for it.
static std::optional<ProjectLine> basicSr(StringRef Body) {
  size_t At = Body.find("[epoch:");
  size_t Close = Body.find(",)] ");
  if (!Body.starts_with("[") || At > 100 || Close == StringRef::npos)
    return std::nullopt;
  Words W(Body.drop_front(At + 7));
  std::optional<double> Epoch = W.number();
  if (!Epoch || !W.take(",") || !W.take("iter:"))
    return std::nullopt;
  std::optional<double> Step = W.number();
  if (!Step || !W.take(",") || !W.take("lr:("))
    return std::nullopt;
  ProjectLine Out;
  Out.Step = *Step;
  add(Out, "epoch", Epoch);
  add(Out, "lr", W.number());
  StringRef Rest = Body.drop_front(Close + 4);
  if (size_t Time = Rest.find("time (data): "); Time < 60) {
    Words T(Rest.drop_front(Time + 13));
    add(Out, "step_time", T.number());
    if (T.take("("))
      add(Out, "data_time", T.number());
  }
  Rest = Rest.drop_front(Rest.starts_with("[") ? Rest.find(']') + 1 : 0);
  SmallVector<LoggedPair, 32> Pairs;
  findPairs(Rest, Pairs);
  for (const LoggedPair &P : Pairs)
    if (P.Assigned)
      add(Out, P.Key, P.Value);
  return Out;
}

/// pjreddie/darknet and AlexeyAB/darknet examples/detector.c.
static std::optional<ProjectLine> darknet(StringRef Body) {
  Words W(Body);
  std::optional<double> Step = W.number();
  if (!Step || !W.take(":"))
    return std::nullopt;
  std::optional<double> Loss = W.number();
  if (!Loss || !W.take(","))
    return std::nullopt;
  std::optional<double> Mean = W.number();
  if (!Mean || !W.take("avg"))
    return std::nullopt;
  W.take("loss");
  ProjectLine Out;
  if (!W.take(","))
    return std::nullopt;
  std::optional<double> Rate = W.number();
  if (!Rate || !W.take("rate,"))
    return std::nullopt;
  Out.Step = *Step;
  add(Out, "loss", Loss);
  add(Out, "lr", Rate);
  if (std::optional<double> Time = W.number(); Time && W.take("seconds"))
    add(Out, "step_time", Time);
  return Out;
}

/// BVLC/caffe src/caffe/sgd_solvers/sgd_solver.cpp: the rate has its own line.
static std::optional<ProjectLine> caffe(StringRef Body) {
  Words W(Body);
  if (!W.take("Iteration "))
    return std::nullopt;
  std::optional<double> Step = W.number();
  if (!Step || !W.take(", lr = "))
    return std::nullopt;
  ProjectLine Out;
  Out.Step = *Step;
  add(Out, "lr", W.number());
  return Out;
}

std::optional<ProjectLine> projectLine(StringRef Body) {
  if (Body.empty() || Body.size() > 4000)
    return std::nullopt;
  std::optional<ProjectLine> Out;
  switch (Body[0]) {
  case '[':
    Out = Body.starts_with("[valid] Ep.") ? marian(Body) : basicSr(Body);
    break;
  case 'E':
    Out = marian(Body);
    break;
  case 'T':
    Out = Body.starts_with("TRAIN ") ? wenet(Body) : tacotron(Body);
    break;
  case 'V':
    Out = tacotron(Body);
    break;
  case 'I':
    Out = caffe(Body);
    break;
  default:
    if (isDigit(Body[0]))
      Out = darknet(Body);
  }
  if (Out && (Out->Values.empty() || !(Out->Step >= 0 && Out->Step < 1e15)))
    return std::nullopt;
  return Out;
}

} // namespace culprit
