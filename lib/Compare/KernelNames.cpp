//===- KernelNames.cpp ------------------------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "Compare/KernelNames.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringSwitch.h"

using namespace llvm;

namespace culprit {

static bool isWordCharacter(char C) { return isAlnum(C) || C == '_'; }

/// The last word of \p Name outside of <> and (), which is the function's own:
/// "a::b<c::d>(e)" gives b. "(anonymous namespace)" has no word outside.
static StringRef functionName(StringRef Name) {
  size_t From = 0, To = 0;
  int Depth = 0;
  bool InWord = false;
  for (size_t I = 0; I != Name.size(); ++I) {
    char C = Name[I];
    if (C == '<' || C == '(' || C == '[') {
      // The parameters follow the name: nothing after them is it.
      if (C == '(' && Depth == 0 && To > From &&
          !Name.substr(I).starts_with("(anonymous namespace)"))
        break;
      ++Depth;
    } else if (C == '>' || C == ')' || C == ']') {
      Depth = std::max(0, Depth - 1);
    }
    bool Word = Depth == 0 && isWordCharacter(C);
    if (Word && !InWord)
      From = I;
    if (Word)
      To = I + 1;
    InWord = Word;
  }
  return To > From ? Name.slice(From, To) : Name;
}

/// The functor of an elementwise kernel, which says more than its name; empty
/// where there is none.
static StringRef functorName(StringRef Name) {
  size_t Start = 0;
  for (size_t I = 0; I <= Name.size(); ++I) {
    if (I != Name.size() && isWordCharacter(Name[I]))
      continue;
    StringRef Word = Name.slice(Start, I);
    Start = I + 1;
    if (Word.contains("Functor") || Word.contains("functor") ||
        Word.ends_with("_kernel_cuda") || Word.ends_with("_kernel_impl"))
      return Word;
  }
  return StringRef();
}

/// "128x64", "32x3", "16", "f16f16": sizes and counts that a tuner chose.
static bool isSizeToken(StringRef Token) {
  return !Token.empty() && all_of(Token, [](char C) {
    return isDigit(C) || C == 'x' || C == 'X';
  }) && any_of(Token, [](char C) { return isDigit(C); });
}

/// Words of a library kernel's name that tell how, not what.
static bool isVariant(StringRef Token) {
  if (isSizeToken(Token))
    return true;
  for (StringRef Prefix : {"sm", "ldg", "align", "stage", "stages", "sliced",
                           "splitK", "tilesize", "warpsize", "kernel"}) {
    StringRef Rest = Token;
    if (Rest.consume_front(Prefix) && !Rest.empty() && isSizeToken(Rest))
      return true;
  }
  return StringSwitch<bool>(Token.lower())
      .Cases("maxwell", "pascal", "volta", "turing", "ampere", "ada", true)
      .Cases("hopper", "blackwell", "cutlass", "tensorop", "xmma", true)
      .Cases("nn", "nt", "tn", "tt", "n", "t", true)
      .Cases("nchw", "nhwc", "stages", "", true)
      .Default(false);
}

/// "s1688gemm" and "h884gemm" are gemm: the digits are the instruction's shape.
static std::string gemmFamily(StringRef Token) {
  size_t At = Token.find("gemm");
  StringRef Before = Token.take_front(At);
  if (Before.size() == 1) // sgemm, dgemm, hgemm, cgemm
    return Token.take_front(At + 4).str();
  return "gemm";
}

std::string kernelFamily(StringRef Name) {
  static constexpr StringLiteral Collectives[] = {
      "AllReduce", "AllGather", "ReduceScatter", "Broadcast",
      "SendRecv",  "AllToAll",  "Reduce"};
  if (Name.starts_with("nccl") || Name.starts_with("rccl"))
    for (StringRef Op : Collectives)
      if (Name.contains(Op))
        return "nccl " + Op.str();

  StringRef Function = functionName(Name);
  if (StringRef Functor = functorName(Name);
      !Functor.empty() && Functor != Function)
    return (Function + " " + Functor).str();
  for (StringRef Pass : {"fprop", "dgrad", "wgrad"})
    if (Function.contains(Pass))
      return "convolution " + Pass.str();

  SmallVector<StringRef, 16> Tokens;
  Function.split(Tokens, '_');
  bool Convolves = Function.contains("conv");
  SmallVector<StringRef, 16> Kept;
  for (StringRef Token : Tokens) {
    if (!Convolves && Token.contains("gemm"))
      return gemmFamily(Token);
    if (!isVariant(Token))
      Kept.push_back(Token);
  }
  if (Function.starts_with("Cijk_")) // Tensile's matrix products
    return "gemm";
  return Kept.empty() ? Function.str() : join(Kept, "_");
}

std::string shortKernelName(StringRef Name, size_t Most) {
  std::string Out = Name.str();
  if (Out.size() > Most) {
    StringRef Functor = functorName(Name);
    Out = functionName(Name).str();
    if (!Functor.empty() && Functor != Out)
      Out += " " + Functor.str();
  }
  if (Out.size() > Most) {
    size_t Tail = Most / 3;
    Out = Out.substr(0, Most - Tail - 3) + "..." +
          Out.substr(Out.size() - Tail);
  }
  return Out;
}

} // namespace culprit
