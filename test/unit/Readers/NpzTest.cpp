//===- NpzTest.cpp ----------------------------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "Readers/Npz.h"
#include "TensorFileTest.h"
#include <isa-l/crc.h>

using namespace llvm;
using namespace culprit;

namespace {

std::string npyBytes(StringRef Descr, StringRef Shape, StringRef Data) {
  std::string Header =
      ("{'descr': '" + Descr + "', 'fortran_order': False, 'shape': " + Shape +
       ", }\n")
          .str();
  return "\x93NUMPY\x01" + std::string(1, '\0') + raw(uint16_t(Header.size())) +
         Header + Data.str();
}

/// npyBytes("<f4", "(64,)", 64 ones) as zlib 1.2.13 deflates it.
constexpr StringLiteral DeflatedOnes(
    "\x9b\xec\x17\xea\x1b\x10\xc9\xc8\x60\xcd\x50\xad\x9e\x92\x5a\x9c\x5c\xa4"
    "\x6e\xa5\xa0\x6e\x93\x66\xa2\xae\xa3\xa0\x9e\x96\x5f\x54\x52\x94\x98\x17"
    "\x9f\x5f\x94\x92\x0a\x12\x77\x4b\xcc\x29\x4e\x05\x8a\x17\x67\x24\x16\xa4"
    "\x02\xf9\x1a\x66\x26\x3a\x9a\x3a\x0a\xb5\x5c\x0c\x0c\x0d\xf6\x23\x19\x03"
    "\x00");

/// Writes zip archives, and the forms of them that real writers choose.
struct ZipWriter {
  std::string Bytes, Central;
  uint16_t Count = 0;
  bool Zip64 = false;      ///< As numpy.savez does: force_zip64=True.
  bool Descriptor = false; ///< As a writer to a pipe does.

  void add(StringRef Name, StringRef Content, uint16_t Method = 0,
           StringRef Packed = "", std::optional<uint32_t> Size = {}) {
    uint32_t Checksum = crc32_gzip_refl(
        0, reinterpret_cast<const uint8_t *>(Content.data()), Content.size());
    if (Method == 0)
      Packed = Content;
    uint32_t Unpacked = Size.value_or(uint32_t(Content.size()));
    uint32_t Offset = uint32_t(Bytes.size());
    uint16_t Flags = Descriptor ? 8 : 0;
    std::string Extra;
    if (Zip64)
      Extra = raw(uint16_t(1)) + raw(uint16_t(16)) + raw(uint64_t(Unpacked)) +
              raw(uint64_t(Packed.size()));
    uint32_t LocalPacked = Descriptor ? 0
                           : Zip64    ? 0xffffffff
                                      : uint32_t(Packed.size());
    uint32_t LocalSize = Descriptor ? 0 : Zip64 ? 0xffffffff : Unpacked;
    Bytes += "PK\3\4" + raw(uint16_t(45)) + raw(Flags) + raw(Method) +
             raw(uint32_t(0)) + raw(Descriptor ? 0 : Checksum) +
             raw(LocalPacked) + raw(LocalSize) + raw(uint16_t(Name.size())) +
             raw(uint16_t(Extra.size())) + Name.str() + Extra + Packed.str();
    if (Descriptor)
      Bytes += "PK\7\10" + raw(Checksum) + raw(uint32_t(Packed.size())) +
               raw(Unpacked);
    // Zip64 here too, where the sizes need it or not.
    Central += "PK\1\2" + raw(uint16_t(45)) + raw(uint16_t(45)) + raw(Flags) +
               raw(Method) + raw(uint32_t(0)) + raw(Checksum) +
               raw(Zip64 ? 0xffffffff : uint32_t(Packed.size())) +
               raw(Zip64 ? 0xffffffff : Unpacked) + raw(uint16_t(Name.size())) +
               raw(uint16_t(Extra.size())) + std::string(10, '\0') +
               raw(Offset) + Name.str() + Extra;
    ++Count;
  }

  std::string finish(StringRef Comment = "") const {
    std::string Out = Bytes + Central;
    uint32_t Start = uint32_t(Bytes.size());
    if (Zip64)
      Out += "PK\6\6" + raw(uint64_t(44)) + raw(uint16_t(45)) +
             raw(uint16_t(45)) + raw(uint64_t(0)) + raw(uint64_t(Count)) +
             raw(uint64_t(Count)) + raw(uint64_t(Central.size())) +
             raw(uint64_t(Start)) + "PK\6\7" + raw(uint32_t(0)) +
             raw(uint64_t(Bytes.size() + Central.size())) + raw(uint32_t(1));
    return Out + "PK\5\6" + raw(uint32_t(0)) +
           raw(Zip64 ? uint16_t(0xffff) : Count) +
           raw(Zip64 ? uint16_t(0xffff) : Count) +
           raw(uint32_t(Central.size())) + raw(Zip64 ? 0xffffffff : Start) +
           raw(uint16_t(Comment.size())) + Comment.str();
  }
};

class NpzTest : public TensorFileTest {
protected:
  const std::string Pair = npyBytes("<f4", "(2,)", raw(1.f) + raw(2.f));
  const std::string Ones = npyBytes("<f4", "(64,)", [] {
    std::string Out;
    for (int I = 0; I != 64; ++I)
      Out += raw(1.f);
    return Out;
  }());

  bool read(StringRef Bytes) {
    return TensorFileTest::read(NpzReader(), Bytes, "step7.npz");
  }
  static std::string why(StringRef Message) {
    return Message.rsplit(" [").first.str();
  }
};

TEST_F(NpzTest, StoredAndDeflated) {
  for (bool Zip64 : {false, true})
    for (bool Descriptor : {false, true}) {
      ZipWriter Zip;
      Zip.Zip64 = Zip64;
      Zip.Descriptor = Descriptor;
      Zip.add("b.output.npy", Pair);
      Zip.add("a.output.npy", Ones, 8, DeflatedOnes);
      ASSERT_TRUE(read(Zip.finish(Descriptor ? "a comment" : "")));
      EXPECT_EQ(Failed, "");
      EXPECT_TRUE(Warnings.empty()) << Warnings[0];
      ASSERT_EQ(count(), 2u);
      EXPECT_EQ(tensor(0), "b.output float32 [2] 1 2");
      EXPECT_EQ(tensor(1), "a.output float32 [64] 1 1 1 1 1 1 1 1");
      EXPECT_EQ(S->tensors()[1].Order, 1);
      EXPECT_EQ(S->tensors()[1].Step, 7);
      EXPECT_EQ(S->tensors()[1].Layer, "a");
      EXPECT_EQ(S->owners().size(), 1u) << "only the deflated one is copied";
    }
}

TEST_F(NpzTest, OtherMembersAreTold) {
  ZipWriter Zip;
  Zip.add("a.npy", Pair);
  Zip.add("folder/", "");
  Zip.add("notes.txt", "hello");
  Zip.add("bad.npy", "no array");
  ASSERT_TRUE(read(Zip.finish()));
  EXPECT_EQ(count(), 1u);
  ASSERT_EQ(Warnings.size(), 2u);
  EXPECT_EQ(why(Warnings[0]), "F: 'notes.txt': is not a .npy member");
  EXPECT_EQ(why(Warnings[1]), "F: 'bad.npy': is no .npy data: it does not "
                              "begin with the magic \\x93NUMPY");
}

TEST_F(NpzTest, WrongChecksum) {
  ZipWriter Zip;
  Zip.add("a.npy", Pair);
  Zip.add("b.npy", Pair);
  std::string Bytes = Zip.finish();
  Bytes[Bytes.find("NUMPY") + Pair.size() - 3] ^= 1;
  ASSERT_TRUE(read(Bytes));
  EXPECT_EQ(count(), 1u);
  ASSERT_EQ(Warnings.size(), 1u);
  EXPECT_EQ(why(Warnings[0]), "F: 'a.npy': its checksum does not hold, so some "
                              "of its bytes are wrong");
}

TEST_F(NpzTest, DamagedDeflate) {
  ZipWriter Zip;
  Zip.add("a.npy", Ones, 8, DeflatedOnes.drop_back(10));
  Zip.add("b.npy", Ones, 8, DeflatedOnes, 300);
  Zip.add("c.npy", Ones, 8, DeflatedOnes, 340);
  ASSERT_TRUE(read(Zip.finish()));
  EXPECT_EQ(count(), 0u);
  ASSERT_EQ(Warnings.size(), 3u);
  for (const std::string &Warning : Warnings)
    EXPECT_TRUE(StringRef(Warning).contains("its compressed data are damaged"))
        << Warning;
}

TEST_F(NpzTest, Bombs) {
  ZipWriter Zip;
  Zip.add("a.npy", Ones, 8, DeflatedOnes, 2'000'000'000);
  Zip.add("b.npy", Ones, 8, DeflatedOnes, 0xfffffff0);
  ASSERT_TRUE(read(Zip.finish()));
  EXPECT_EQ(count(), 0u);
  ASSERT_EQ(Warnings.size(), 2u);
  EXPECT_EQ(why(Warnings[0]), "F: 'a.npy': claims 2000000000 bytes in 73, more "
                              "than can be packed into them");
  EXPECT_EQ(why(Warnings[1]), "F: 'b.npy': unpacks to 4294967280 bytes; up to "
                              "4 GiB are read");
}

TEST_F(NpzTest, OverlappingMembers) {
  ZipWriter Zip;
  Zip.add("a.npy", Pair);
  Zip.Central += Zip.Central;
  ++Zip.Count;
  ASSERT_TRUE(read(Zip.finish()));
  EXPECT_EQ(count(), 1u);
  ASSERT_EQ(Warnings.size(), 1u);
  EXPECT_EQ(why(Warnings[0]), "F: 'a.npy': shares bytes with another member");
}

TEST_F(NpzTest, OtherMethods) {
  ZipWriter Zip;
  Zip.add("a.npy", Pair, 14, "packed by LZMA");
  ASSERT_TRUE(read(Zip.finish()));
  ASSERT_EQ(Warnings.size(), 1u);
  EXPECT_TRUE(StringRef(Warnings[0]).contains("compressed by method 14"));
}

TEST_F(NpzTest, CutOffArchive) {
  ZipWriter Zip;
  Zip.Zip64 = true;
  Zip.add("a.npy", Pair);
  Zip.add("b.npy", Pair);
  std::string Bytes = Zip.Bytes;
  Bytes.resize(Bytes.size() - 4);
  ASSERT_TRUE(read(Bytes));
  EXPECT_EQ(Failed, "");
  EXPECT_EQ(count(), 1u);
  ASSERT_EQ(Warnings.size(), 1u);
  EXPECT_EQ(why(Warnings[0]), "F: the archive's directory is missing at its "
                              "end; 1 members were found without it");
  Bytes.resize(60);
  ASSERT_TRUE(read(Bytes));
  EXPECT_EQ(why(Failed), "F: the archive's directory is missing at its end; 0 "
                         "members were found without it");
}

TEST_F(NpzTest, OtherZipsAreNotMatched) {
  ZipWriter Zip;
  Zip.add("archive/data.pkl", "x");
  EXPECT_FALSE(read(Zip.finish()));
  EXPECT_FALSE(read("PK\3\4"));
  EXPECT_FALSE(read("PK\5\6"));
}

TEST_F(NpzTest, DamagedFiles) {
  for (bool Zip64 : {false, true}) {
    ZipWriter Zip;
    Zip.Zip64 = Zip64;
    Zip.add("a.npy", Pair);
    Zip.add("b.npy", Ones, 8, DeflatedOnes);
    fuzz(NpzReader(), Zip.finish(), "step7.npz");
  }
}

} // namespace
