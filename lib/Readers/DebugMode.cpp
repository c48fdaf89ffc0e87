//===- DebugMode.cpp --------------------------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
//
// After torch/utils/_debug_mode.py of PyTorch 2.9 to 2.13.
//
//===----------------------------------------------------------------------===//

#include "Readers/DebugMode.h"
#include "Readers/TensorRemarks.h"
#include "Readers/TextLines.h"
#include "Support/LooseJson.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/ADT/StringSwitch.h"
#include "llvm/Support/MathExtras.h"

using namespace llvm;

namespace culprit {

static constexpr StringLiteral Arrow("  ->  "), Log("  # {"),
    Module("[nn.Mod] ");

namespace {
/// A tensor as DebugMode shows it: t$3: bf16[5, 4].
struct Shown {
  StringRef Type;
  SmallVector<int64_t, 4> Shape;
};
} // namespace

static StringRef longTypeName(StringRef Short) {
  return StringSwitch<StringRef>(Short)
      .Case("f64", "float64")
      .Case("f32", "float32")
      .Case("f16", "float16")
      .Case("bf16", "bfloat16")
      .Case("f8e4m3fn", "float8_e4m3")
      .Case("f8e5m2", "float8_e5m2")
      .Case("f8e4m3fnuz", "float8_e4m3fnuz")
      .Case("f8e5m2fnuz", "float8_e5m2fnuz")
      .Case("f8e8m0fnu", "float8_e8m0fnu")
      .Case("i64", "int64")
      .Case("i32", "int32")
      .Case("i16", "int16")
      .Case("i8", "int8")
      .Case("u64", "uint64")
      .Case("u32", "uint32")
      .Case("u16", "uint16")
      .Case("u8", "uint8")
      .Case("b8", "bool")
      .Default(Short);
}

/// The next tensor in \p Text, which is advanced past it.
static std::optional<Shown> nextTensor(StringRef &Text) {
  for (size_t At; (At = Text.find(": ")) != StringRef::npos;) {
    StringRef Before = Text.take_front(At);
    Text = Text.drop_front(At + 2);
    Before = Before.rtrim("0123456789");
    Before.consume_back("$");
    if (!Before.ends_with("t") ||
        (Before.size() > 2 && isAlnum(Before[Before.size() - 3])))
      continue; // t, dt or ft
    StringRef Rest = Text;
    Shown Out;
    Out.Type = Rest.take_while(isAlnum);
    Rest = Rest.drop_front(Out.Type.size());
    if (Out.Type.empty() || !Rest.consume_front("["))
      continue;
    StringRef Sizes = Rest.take_until([](char C) { return C == ']'; });
    int64_t Numel = 1;
    bool Good = Sizes.size() < Rest.size();
    for (StringRef Left = Sizes; Good && !Left.empty();) {
      auto [Size, More] = Left.split(',');
      Left = More;
      int64_t Value;
      Good = !Size.trim().getAsInteger(10, Value) && Value >= 0 &&
             Out.Shape.size() < 64 &&
             (Value == 0 || !MulOverflow(Numel, Value, Numel));
      if (Good)
        Out.Shape.push_back(Value);
    }
    if (!Good)
      continue;
    Text = Rest.drop_front(Sizes.size() + 1);
    return Out;
  }
  return std::nullopt;
}

/// The Python literal behind \p Key in the dictionary \p Text: up to the comma
/// or brace that ends it.
static StringRef literalBehind(StringRef Text, StringRef Key) {
  size_t At = Text.find(Key);
  if (At == StringRef::npos)
    return "";
  Text = Text.drop_front(At + Key.size());
  int Depth = 0;
  for (size_t I = 0; I != Text.size(); ++I) {
    char C = Text[I];
    if (Depth == 0 && (C == ',' || C == '}'))
      return Text.take_front(I).trim();
    Depth += C == '(' || C == '[' || C == '{';
    Depth -= C == ')' || C == ']' || C == '}';
  }
  return Text.trim();
}

/// All numbers in the literal \p Text, in order; NaN and inf are some.
static void numbersOf(StringRef Text, SmallVectorImpl<StringRef> &Out) {
  while (!Text.empty()) {
    StringRef Word = Text.take_while(
        [](char C) { return isAlnum(C) || StringRef(".+-_'").contains(C); });
    if (Word.empty()) {
      Text = Text.drop_front();
      continue;
    }
    Text = Text.drop_front(Word.size());
    if (!Word.contains('\'') && Word != "None")
      Out.push_back(Word);
  }
}

namespace {
/// The rows of one log.
class OperatorRows {
public:
  explicit OperatorRows(Source &Into) : Into(Into) {}
  void line(StringRef Line);
  int64_t hashed() const { return Hashed; }
  int64_t operators() const { return Operators; }

private:
  void add(const Twine &Name, StringRef Layer, StringRef Role, const Shown *T,
           StringRef Norm, StringRef Hash);

  Source &Into;
  std::vector<std::pair<size_t, StringRef>> Modules; ///< Indent and name.
  StringMap<int64_t> Numbers; ///< Of operators, by layer.
  int64_t Order = 0, Hashed = 0, Operators = 0;
};
} // namespace

void OperatorRows::add(const Twine &Name, StringRef Layer, StringRef Role,
                       const Shown *T, StringRef Norm, StringRef Hash) {
  TensorRecord Record;
  Record.Name = printableName(Name.str());
  Record.Layer = printableName(Layer);
  Record.Role = Role.str();
  Record.Order = Order++;
  TensorSummary Given;
  // Norms are floats, other hashes whole numbers.
  if (!all_of(Norm, isDigit))
    Given.L1 = parseNumber(Norm);
  Given.Hash = json::fixUTF8(Hash.take_front(64));
  if (T) {
    Given.Type = longTypeName(T->Type).str();
    Record.Data.Shape = T->Shape;
  }
  Into.addTensor(std::move(Record), Given, T != nullptr);
}

void OperatorRows::line(StringRef Line) {
  const size_t Indent = Line.size() - Line.ltrim(' ').size();
  Line = Line.trim();
  if (Line.empty() || Line.starts_with("#"))
    return;
  while (!Modules.empty() && Modules.back().first >= Indent)
    Modules.pop_back();
  if (Line.consume_front(Module)) {
    Modules.push_back({Indent, Line});
    return;
  }
  size_t Open = Line.find('('), Notes = Line.rfind(Log);
  if (Open == StringRef::npos || Open == 0)
    return;
  ++Operators;
  if (Notes == StringRef::npos)
    return;
  StringRef Told = Line.drop_front(Notes);
  Line = Line.take_front(Notes);
  auto [Call, Result] = Line.split(Arrow);
  StringRef Op = Call.take_front(Open), Arguments = Call.drop_front(Open);
  StringRef Hash = literalBehind(Told, "'hash': ");
  if (Hash.empty())
    return;
  ++Hashed;

  // The first part of a module's name is the class of the model.
  StringRef Layer = Op;
  if (!Modules.empty()) {
    Layer = Modules.back().second;
    if (Layer.contains('.'))
      Layer = Layer.split('.').second;
  }
  std::string Name =
      (Layer + "/op_" + Twine(Numbers[Layer]++) + "_" + Op).str();

  SmallVector<StringRef, 4> Norms;
  numbersOf(literalBehind(Told, "'input_hash': "), Norms);
  SmallVector<Shown, 4> Inputs;
  while (Inputs.size() <= Norms.size())
    if (std::optional<Shown> T = nextTensor(Arguments))
      Inputs.push_back(std::move(*T));
    else
      break;
  if (Inputs.size() == Norms.size()) // else it is not known which is which
    for (size_t I = 0; I != Norms.size(); ++I)
      add(Twine(Name) + ".input." + Twine(I), Layer, "input", &Inputs[I],
          Norms[I], Norms[I]);

  SmallVector<StringRef, 4> Outputs;
  numbersOf(Hash, Outputs);
  std::optional<Shown> Given = nextTensor(Result);
  add(Name, Layer, "output", Given ? &*Given : nullptr,
      Outputs.empty() ? "" : Outputs.front(), Hash);
}

Match DebugModeReader::matches(const InputFile &File) const {
  size_t Lines = 0, Operators = 0;
  forEachLine(
      completeLines(File.head(), File.head().size() < InputFile::HeadBytes),
      [&](StringRef Line, int64_t) {
        StringRef Text = Line.trim();
        if (Text.empty() || Text.starts_with("#") || Text.starts_with(Module))
          return true;
        ++Lines;
        auto [Call, Result] = Text.split(Arrow);
        size_t Open = Call.find('(');
        StringRef Op = Call.take_front(Open);
        Operators += Open != StringRef::npos && !Op.contains(' ') &&
                     (Op.contains("::") || Op.starts_with("torch.")) &&
                     nextTensor(Result).has_value();
        return Lines < 64;
      });
  return Operators != 0 && Operators * 2 >= Lines ? Match::Certain : Match::No;
}

Error DebugModeReader::read(InputFile &File, Source &Into) const {
  Expected<StringRef> Contents = File.contents();
  if (!Contents)
    return Contents.takeError();
  OperatorRows Rows(Into);
  forEachLine(*Contents, [&](StringRef Line, int64_t) {
    Rows.line(Line);
    return true;
  });
  if (Rows.hashed() == 0)
    return failure(Into.path() + ": names operators and says nothing of their "
                                 "values",
                   "record it with DebugMode.log_tensor_hashes("
                   "hash_inputs=True)");
  return Error::success();
}

} // namespace culprit
