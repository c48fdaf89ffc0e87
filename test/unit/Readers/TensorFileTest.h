//===- TensorFileTest.h - A fixture for readers of dumps --------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#ifndef CULPRIT_UNIT_READERS_TENSORFILETEST_H
#define CULPRIT_UNIT_READERS_TENSORFILETEST_H

#include "Readers/Reader.h"
#include "llvm/ADT/SmallString.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/raw_ostream.h"
#include "gtest/gtest.h"

namespace culprit {

/// The bytes of \p Value, little-endian.
template <class T> std::string raw(T Value) {
  return std::string(reinterpret_cast<const char *>(&Value), sizeof(T));
}

/// One file read by one reader. Messages name it "F".
class TensorFileTest : public testing::Test {
protected:
  void SetUp() override {
    ASSERT_FALSE(llvm::sys::fs::createUniqueDirectory("culprit-dump", Folder));
  }
  void TearDown() override { llvm::sys::fs::remove_directories(Folder); }

  /// Writes \p Bytes to a file and reads that. False if \p R does not want
  /// it; Failed and Warnings say what went wrong.
  bool read(const Reader &R, llvm::StringRef Bytes,
            llvm::StringRef Name = "dump") {
    std::string Path = (Folder + "/" + Name).str();
    std::error_code EC;
    {
      llvm::raw_fd_ostream OS(Path, EC);
      OS << Bytes;
    }
    S.reset();
    Failed.clear();
    Warnings.clear();
    llvm::Expected<std::unique_ptr<InputFile>> Opened = InputFile::open(Path);
    if (!Opened) {
      llvm::consumeError(Opened.takeError());
      return false;
    }
    File = std::move(*Opened);
    if (R.matches(*File) == Match::No)
      return false;
    S = std::make_unique<Source>(Path, Pool);
    for (const Diagnostic &D : toDiagnostics(R.read(*File, *S)))
      Failed = shown(D, Path);
    for (const Diagnostic &D : S->Remarks)
      Warnings.push_back(shown(D, Path));
    return true;
  }

  static std::string shown(const Diagnostic &D, llvm::StringRef Path) {
    std::string Out = D.Message;
    EXPECT_TRUE(llvm::StringRef(Out).starts_with(Path)) << Out;
    Out.replace(0, Path.size(), "F");
    EXPECT_FALSE(llvm::StringRef(Out).ends_with(".")) << Out;
    return D.Hint.empty() ? Out : Out + " [" + D.Hint + "]";
  }

  /// "name dtype [shape] first-value" of tensor \p I.
  std::string tensor(size_t I) {
    const TensorRecord &T = S->tensors()[I];
    std::string Out = T.Name + " " + toString(T.Data.Type).str() + " [";
    for (size_t D = 0; D != T.Data.Shape.size(); ++D)
      Out += (D ? "," : "") + std::to_string(T.Data.Shape[D]);
    Out += "]";
    for (int64_t N = 0; N != std::min<int64_t>(T.Data.numel(), 8); ++N)
      Out += llvm::Twine(" ").concat(llvm::Twine(format(T.Data.at(N)))).str();
    return Out;
  }
  static std::string format(double Value) {
    char Text[32];
    std::snprintf(Text, sizeof(Text), "%g", Value);
    return Text;
  }

  size_t count() { return S ? S->tensors().size() : 0; }

  /// Reads 2,000 damaged copies of \p Good: cut off, with bits flipped, bytes
  /// replaced, pieces moved. Wants no crash, and of each a sentence or values
  /// that can be read.
  void fuzz(const Reader &R, const std::string &Good,
            llvm::StringRef Name = "dump") {
    uint64_t State = 1;
    const auto Next = [&](size_t Below) {
      State = State * 6364136223846793005u + 1442695040888963407u;
      return size_t(State >> 33) % Below;
    };
    double Sum = 0;
    for (unsigned Round = 0; Round != 2000; ++Round) {
      std::string Bytes = Good;
      for (size_t Times = 1 + Next(4); Times != 0; --Times)
        switch (Bytes.empty() ? 4 : Next(5)) {
        case 0:
          Bytes[Next(Bytes.size())] ^= char(1 << Next(8));
          break;
        case 1:
          Bytes[Next(Bytes.size())] = char(Next(3) ? Next(256) : 0xff);
          break;
        case 2:
          Bytes.resize(Next(Bytes.size()));
          break;
        case 3: {
          size_t From = Next(Bytes.size()), To = Next(Bytes.size());
          Bytes.insert(To, Bytes.substr(From, 1 + Next(40)));
          break;
        }
        case 4:
          Bytes += std::string(Next(20), char(Next(256)));
          break;
        }
      if (!read(R, Bytes, Name))
        continue;
      for (const TensorRecord &T : S->tensors())
        if (int64_t Count = T.Data.numel())
          Sum += T.Data.at(0) + T.Data.at(Count - 1);
      EXPECT_LE(Warnings.size(), 8u);
    }
    [[maybe_unused]] static volatile double Sink;
    Sink = Sum;
  }

  llvm::SmallString<128> Folder;
  StringPool Pool;
  std::unique_ptr<InputFile> File;
  std::unique_ptr<Source> S;
  std::string Failed;
  std::vector<std::string> Warnings;
};

} // namespace culprit

#endif // CULPRIT_UNIT_READERS_TENSORFILETEST_H
