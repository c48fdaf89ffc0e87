//===- InputFileTest.cpp ----------------------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "Support/InputFile.h"
#include "Support/Error.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/raw_ostream.h"
#include "gtest/gtest.h"
#include <sys/stat.h>

using namespace llvm;
using namespace culprit;

namespace {

// "hello\n" as gzip -n and zstd write it.
constexpr StringLiteral
    GzipHello("\x1f\x8b\x08\0\0\0\0\0\x02\x03\xcb\x48\xcd\xc9\xc9\xe7\x02\0"
              "\x20\x30\x3a\x36\x06\0\0\0");
constexpr StringLiteral
    ZstdHello("\x28\xb5\x2f\xfd\x04\x58\x31\0\0hello\n\x53\x88\xbd\x91");
// "ab" 500 times.
constexpr StringLiteral GzipLong(
    "\x1f\x8b\x08\0\0\0\0\0\x02\x03\x4b\x4c\x4a\x1c\x85\xa3\x70\x14\x0e\x73"
    "\x08\0\x48\xc5\xc7\x57\xe8\x03\0\0");

class InputFileTest : public testing::Test {
protected:
  void SetUp() override {
    ASSERT_FALSE(sys::fs::createUniqueDirectory("culprit-input", Folder));
  }
  void TearDown() override { sys::fs::remove_directories(Folder); }

  std::string path(StringRef Name) { return (Folder + "/" + Name).str(); }

  std::string write(StringRef Name, StringRef Bytes) {
    std::error_code EC;
    raw_fd_ostream OS(path(Name), EC);
    OS << Bytes;
    return path(Name);
  }

  std::unique_ptr<InputFile> open(const std::string &Path) {
    Expected<std::unique_ptr<InputFile>> File = InputFile::open(Path);
    if (!File) {
      ADD_FAILURE() << toString(File.takeError());
      return nullptr;
    }
    return std::move(*File);
  }

  std::string contents(InputFile &File) {
    Expected<StringRef> Bytes = File.contents();
    if (!Bytes)
      return "error: " + toString(Bytes.takeError());
    unsigned Sum = 0;
    for (size_t I = 0; I != 64; ++I)
      Sum += Bytes->end()[I];
    EXPECT_EQ(Sum, 0u) << "the padding reads as zeros";
    return Bytes->str();
  }

  std::string streamed(InputFile &File) {
    std::string All;
    EXPECT_FALSE(errorToBool(File.stream([&](StringRef Piece) {
      All += Piece;
      return true;
    })));
    return All;
  }

  std::string openError(const std::string &Path) {
    Expected<std::unique_ptr<InputFile>> File = InputFile::open(Path);
    return File ? "opened" : toString(File.takeError());
  }

  SmallString<128> Folder;
};

TEST_F(InputFileTest, PlainFileReadsBack) {
  auto File = open(write("a.txt", "hello\n"));
  EXPECT_EQ(File->compression(), Compression::None);
  EXPECT_EQ(File->diskSize(), 6u);
  EXPECT_EQ(File->head(), "hello\n");
  EXPECT_EQ(contents(*File), "hello\n");
  EXPECT_EQ(streamed(*File), "hello\n");
}

TEST_F(InputFileTest, EmptyFileIsEmpty) {
  auto File = open(write("empty", ""));
  EXPECT_EQ(File->head(), "");
  EXPECT_EQ(contents(*File), "");
  EXPECT_EQ(streamed(*File), "");
}

// 64 bytes may be read behind files that end just before, at and just after
// the end of a page, whether they are read (small) or mapped (large).
TEST_F(InputFileTest, PaddingHoldsAtPageEnds) {
  for (size_t Size : {4095, 4096, 4097, 1 << 20, (1 << 20) - 63, (1 << 20) - 64,
                      (1 << 20) + 1}) {
    std::string Bytes(Size, 'x');
    auto File = open(write("page", Bytes));
    EXPECT_EQ(File->head().size(), std::min(Size, InputFile::HeadBytes));
    EXPECT_TRUE(contents(*File) == Bytes) << Size;
    EXPECT_TRUE(streamed(*File) == Bytes) << Size;
  }
}

TEST_F(InputFileTest, GzipAndZstdAreUndone) {
  auto Gzip = open(write("a.gz", GzipHello));
  EXPECT_EQ(Gzip->compression(), Compression::Gzip);
  EXPECT_EQ(Gzip->head(), "hello\n");
  EXPECT_EQ(contents(*Gzip), "hello\n");
  auto Zstd = open(write("a.zst", ZstdHello));
  EXPECT_EQ(Zstd->compression(), Compression::Zstd);
  EXPECT_EQ(contents(*Zstd), "hello\n");
  EXPECT_EQ(streamed(*Zstd), "hello\n");
}

// The name does not matter, members join, and padding after them is ignored.
TEST_F(InputFileTest, MembersJoin) {
  std::string Two = (GzipHello + GzipLong + GzipHello).str();
  std::string Want = "hello\n";
  for (int I = 0; I != 500; ++I)
    Want += "ab";
  Want += "hello\n";
  auto File = open(write("two.json", Two + std::string(512, '\0')));
  EXPECT_EQ(contents(*File), Want);
  EXPECT_EQ(streamed(*File), Want);
  EXPECT_EQ(File->truncation(), "");
  auto Frames = open(write("two.zst", (ZstdHello + ZstdHello).str()));
  EXPECT_EQ(contents(*Frames), "hello\nhello\n");
  EXPECT_EQ(Frames->truncation(), "");
}

TEST_F(InputFileTest, TruncatedGzipKeepsWhatCame) {
  // All of the first member, half of the second.
  std::string Cut = (GzipHello + GzipLong.drop_back(14)).str();
  auto File = open(write("cut.gz", Cut));
  EXPECT_TRUE(StringRef(contents(*File)).starts_with("hello\n"));
  EXPECT_TRUE(
      StringRef(File->truncation()).starts_with("the gzip stream is cut off; "))
      << File->truncation();
}

TEST_F(InputFileTest, EveryCutIsSurvived) {
  for (StringRef Whole : {StringRef(GzipLong), StringRef(ZstdHello)})
    for (size_t Size = 4; Size != Whole.size(); ++Size) {
      std::string Path = write("cut", Whole.take_front(Size));
      Expected<std::unique_ptr<InputFile>> File = InputFile::open(Path);
      if (!File) {
        EXPECT_NE(toString(File.takeError()).find("is cut off"),
                  std::string::npos);
        continue;
      }
      contents(**File);
      EXPECT_NE((*File)->truncation(), "") << Size;
    }
}

TEST_F(InputFileTest, DamageIsNamed) {
  std::string Bad = GzipHello.str();
  Bad[18] ^= 1; // the checksum
  auto File = open(write("bad.gz", Bad));
  EXPECT_EQ(contents(*File), "hello\n");
  EXPECT_EQ(File->truncation(), "the gzip stream fails its checksum; "
                                "6 bytes came before that");
  // A valid header, then a block of the reserved type 3.
  std::string Garbage =
      GzipHello.take_front(10).str() + std::string(40, '\xff');
  EXPECT_NE(openError(write("garbage.gz", Garbage)).find("is damaged"),
            std::string::npos);
}

TEST_F(InputFileTest, OnlyRegularFiles) {
  EXPECT_EQ(openError(Folder.str().str()),
            (Folder + ": is a folder, not a file").str());
  std::string Pipe = path("pipe");
  ASSERT_EQ(::mkfifo(Pipe.c_str(), 0600), 0);
  EXPECT_EQ(openError(Pipe),
            Pipe + ": is not a regular file but a pipe, socket or device");
  EXPECT_EQ(openError(path("none")),
            path("none") + ": cannot be opened: No such file or directory");
}

// A few bytes can stand for any number: what is within the limit is kept.
TEST_F(InputFileTest, DecompressionIsBounded) {
  auto Limited = open(write("long.gz", GzipLong));
  std::string Whole = contents(*open(write("long.gz", GzipLong)));
  ASSERT_GT(Whole.size(), 100u);
  Limited->setLimits({/*Held=*/64, /*Streamed=*/100});
  std::string Streamed;
  EXPECT_FALSE(errorToBool(Limited->stream([&](StringRef Piece) {
    Streamed += Piece;
    return true;
  })));
  EXPECT_EQ(Streamed, Whole.substr(0, 100));
  EXPECT_EQ(Limited->truncation(), "becomes larger than 100 B when "
                                   "decompressed, the limit on this machine");
  EXPECT_EQ(contents(*Limited), Whole.substr(0, 64));
  EXPECT_EQ(Limited->truncation(), "becomes larger than 64 B when "
                                   "decompressed, the limit on this machine");
  // A file that just fits is whole, and a plain file has no limit.
  auto Fits = open(write("long.gz", GzipLong));
  Fits->setLimits({Whole.size(), Whole.size()});
  EXPECT_EQ(contents(*Fits), Whole);
  EXPECT_EQ(Fits->truncation(), "");
  auto Plain = open(write("plain", Whole));
  Plain->setLimits({64, 64});
  EXPECT_EQ(contents(*Plain), Whole);
}

TEST_F(InputFileTest, StreamStopsWhenTold) {
  auto File = open(write("big", std::string(5 << 20, 'x')));
  size_t Seen = 0;
  EXPECT_FALSE(errorToBool(File->stream([&](StringRef Piece) {
    Seen += Piece.size();
    return false;
  })));
  EXPECT_EQ(Seen, size_t(1) << 20);
}

TEST_F(InputFileTest, LinesComeWhole) {
  // Pieces of 16 bytes; one line is longer than a piece and the last one has
  // no end.
  std::string Text = "ab\n\ncdef\n" + std::string(100, 'x') + "\nlast\nno end";
  auto File = open(write("lines", Text));
  std::string All;
  std::vector<std::string> Pieces;
  EXPECT_FALSE(errorToBool(File->lines(
      [&](StringRef Piece) {
        All += Piece;
        Pieces.push_back(Piece.str());
        return true;
      },
      16)));
  EXPECT_EQ(All, Text);
  ASSERT_GE(Pieces.size(), 3u);
  for (size_t I = 0; I + 1 != Pieces.size(); ++I)
    EXPECT_EQ(Pieces[I].back(), '\n');
  EXPECT_EQ(Pieces.back(), "no end");
}

TEST_F(InputFileTest, LinesStopWhenTold) {
  auto File = open(write("lines", "a\nb\nc\nd\ne\nf\n"));
  unsigned Pieces = 0;
  EXPECT_FALSE(errorToBool(File->lines([&](StringRef) {
    ++Pieces;
    return false;
  }, 4)));
  EXPECT_EQ(Pieces, 1u);
}

} // namespace
