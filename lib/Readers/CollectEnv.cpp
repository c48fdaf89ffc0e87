//===- CollectEnv.cpp -------------------------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "Readers/CollectEnv.h"
#include "Readers/ConfigRows.h"
#include "Readers/TextLines.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringSwitch.h"

using namespace llvm;

namespace culprit {

Match CollectEnvReader::matches(const InputFile &File) const {
  StringRef Head = File.head();
  if (Head.contains('\0') || Head.ltrim().starts_with("{"))
    return Match::No;
  // Lines of its own that stand in every age of it, with spaces before the
  // colon in vLLM's.
  bool Torch = false, Cuda = false, Debug = false;
  bool Whole = Head.size() < InputFile::HeadBytes;
  forEachLine(completeLines(Head, Whole), [&](StringRef Line, int64_t) {
    StringRef Key = Line.split(':').first.trim();
    Torch |= Key == "PyTorch version";
    Cuda |= Key == "CUDA used to build PyTorch";
    Debug |= Key == "Is debug build" || Key == "Is CUDA available";
    return !(Torch && Cuda && Debug);
  });
  return Torch && Cuda && Debug ? Match::Certain : Match::No;
}

/// The short name of a line's words; empty when it has none.
static StringRef shortName(StringRef Words) {
  return StringSwitch<StringRef>(Words)
      .Case("PyTorch version", "pytorch")
      .Case("CUDA used to build PyTorch", "cuda")
      .Case("ROCM used to build PyTorch", "rocm")
      .Case("CUDA runtime version", "cuda_runtime")
      .Case("Nvidia driver version", "driver")
      .Case("cuDNN version", "cudnn")
      .Case("OS", "os")
      .Case("Python version", "python")
      .Case("Is CUDA available", "cuda_available")
      .Case("Model name", "cpu")
      .Case("CPU(s)", "cpus")
      .Case("vLLM Version", "vllm")
      .Default("");
}

/// "Is debug build" is is_debug_build.
static std::string keyOf(StringRef Words) {
  if (StringRef Short = shortName(Words); !Short.empty())
    return Short.str();
  std::string Out;
  for (char C : Words) {
    if (isAlnum(C))
      Out += toLower(C);
    else if (!Out.empty() && Out.back() != '_')
      Out += '_';
  }
  return StringRef(Out).rtrim('_').str();
}

static bool isNoValue(StringRef Value) {
  return Value.empty() || Value == "N/A" || Value == "Could not collect" ||
         Value == "None" || Value == "No CUDA";
}

namespace {
class EnvPass {
public:
  explicit EnvPass(Source &Into)
      : Into(Into), Config(Into, "env."),
        Path(Into.pool().intern(Into.path())),
        Run(Into.pool().intern(Into.Run)) {}
  void line(StringRef Line, int64_t Number);
  void finish() { Config.finish(); }

private:
  void package(StringRef Name, StringRef Version, int64_t Number);
  bool gpu(StringRef Line, int64_t Number);

  Source &Into;
  ConfigRows Config;
  StringId Path, Run;
  /// The words of a line whose value stands in the lines after it.
  std::string Open;
};
} // namespace

void EnvPass::package(StringRef Name, StringRef Version, int64_t Number) {
  if (Name.empty() || Version.empty())
    return;
  TableBuilder &T = Into.table(TableId::packages);
  T.addRow();
  T.set(packages::name, Name);
  T.set(packages::version, Version);
  T.set(packages::place, Number);
  T.setId(packages::source, Path);
  T.setId(packages::run, Run);
}

/// "GPU 0: NVIDIA A100-SXM4-80GB"
bool EnvPass::gpu(StringRef Line, int64_t Number) {
  if (!Line.consume_front("GPU "))
    return false;
  auto [Index, Name] = Line.split(':');
  if (Index.empty() || Index.find_if_not(isDigit) != StringRef::npos ||
      Name.trim().empty())
    return false;
  Config.add(("gpu." + Index).str(), Name.trim(), Number);
  return true;
}

void EnvPass::line(StringRef Line, int64_t Number) {
  StringRef Text = Line.trim();
  if (Text.consume_front("[pip3] ") || Text.consume_front("[pip] ")) {
    auto [Name, Version] = Text.trim().split("==");
    return package(Name, Version, Number);
  }
  if (Text.consume_front("[conda] ")) {
    // Name, version, build, channel in columns.
    auto [Name, Rest] = Text.trim().split(' ');
    StringRef Version = Rest.ltrim().split(' ').first;
    if (!Version.empty() && isDigit(Version[0]))
      package(Name, Version, Number);
    return;
  }
  if (gpu(Text, Number))
    return;
  auto [Words, Value] = Text.split(':');
  Words = Words.rtrim();
  Value = Value.trim();
  // Text of a table, such as the matrix of links, and environment variables.
  if (!Text.contains(':')) {
    auto [Name, Set] = Text.split('=');
    if (!Name.empty() && !Set.empty() && Name.find_if_not([](char C) {
          return isUpper(C) || isDigit(C) || C == '_';
        }) == StringRef::npos)
      Config.add(("variable." + Name).str(), Set, Number);
    else if (!Open.empty() && !Text.empty() && Open == "cudnn")
      Config.add(Open, Text, Number); // "Probably one of the following:"
    Open.clear();
    return;
  }
  if (Words.empty() || Words.size() > 60)
    return;
  if (Words == "GPU models and configuration") {
    // Of one GPU older versions print the name behind the colon.
    if (StringRef One = Value; !isNoValue(One) && !gpu(One, Number))
      Config.add("gpu.0", One, Number);
    return;
  }
  std::string Key = keyOf(Words);
  Open = Value.starts_with("Probably one of") ? Key : "";
  if (!Key.empty() && Open.empty() && !isNoValue(Value))
    Config.add(Key, Value, Number);
}

Error CollectEnvReader::read(InputFile &File, Source &Into) const {
  Expected<StringRef> Text = File.contents();
  if (!Text)
    return Text.takeError();
  EnvPass Pass(Into);
  forEachLine(*Text, [&](StringRef Line, int64_t Number) {
    Pass.line(Line, Number);
    return true;
  });
  Pass.finish();
  return Error::success();
}

} // namespace culprit
