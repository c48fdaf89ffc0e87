//===- MetricStoresTest.cpp - TensorBoard, W&B, MLflow ----------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
//
// The files are made by hand here and, in test/lit/readers, by scripts that
// follow the writers' sources.
//
//===----------------------------------------------------------------------===//

#include "Readers/MlflowStore.h"
#include "Readers/TensorBoardEvents.h"
#include "Readers/TensorBoardRecords.h"
#include "Readers/TensorBoardSummary.h"
#include "Readers/WandbFile.h"
#include "Readers/WandbRecords.h"
#include "Support/Crc.h"
#include "Support/WireFormat.h"
#include "TextFileTest.h"
#include "llvm/Support/Endian.h"
#include <random>

using namespace culprit;
using namespace llvm;

class TensorBoard : public TextFileTest {
protected:
  TensorBoardEventsReader R;
};
class Wandb : public TextFileTest {
protected:
  WandbFileReader R;
};
class Mlflow : public TextFileTest {
protected:
  MlflowStoreReader R;
};

template <typename T> static std::string little(T Value) {
  char Buffer[sizeof(T)];
  support::endian::write<T>(Buffer, Value, endianness::little);
  return {Buffer, sizeof(T)};
}

static std::string tfRecord(StringRef Data) {
  std::string Length = little<uint64_t>(Data.size());
  return Length + little<uint32_t>(maskedCrc32c(Length)) + Data.str() +
         little<uint32_t>(maskedCrc32c(Data));
}

/// A field of bytes, of a number below 16.
static std::string bytes(unsigned Number, StringRef Value) {
  return std::string(1, static_cast<char>(Number << 3 | 2)) +
         static_cast<char>(Value.size()) + Value.str();
}

static std::string lossEvent(char Step, float Value) {
  uint32_t Bits = llvm::bit_cast<uint32_t>(Value);
  std::string Loss = bytes(1, "loss") + '\x15' + little(Bits);
  return tfRecord(std::string("\x10") + Step + bytes(5, bytes(1, Loss)));
}

static std::string events(unsigned Count) {
  std::string Out = tfRecord(bytes(3, "brain.Event:2"));
  for (unsigned I = 1; I <= Count; ++I)
    Out += lossEvent(static_cast<char>(I), static_cast<float>(I));
  return Out;
}

static std::string chunk(char Type, StringRef Data) {
  return little<uint32_t>(crc32Ieee(std::string(1, Type) + Data.str())) +
         little<uint16_t>(static_cast<uint16_t>(Data.size())) + Type +
         Data.str();
}

static std::string history(char Step) {
  std::string Loss = bytes(1, "loss") + std::string("\x82\x01\x01") + "7";
  return bytes(2, bytes(1, Loss) + bytes(2, std::string("\x08") + Step));
}

static std::string wandbFile(unsigned Count) {
  std::string Out(":W&B\xE1\xBE\0", 7);
  for (unsigned I = 1; I <= Count; ++I)
    Out += chunk(1, history(static_cast<char>(I)));
  return Out;
}

TEST(Crc, IsThatOfTheStandards) {
  EXPECT_EQ(crc32c("123456789"), 0xE3069283u);
  EXPECT_EQ(crc32Ieee("123456789"), 0xCBF43926u);
  EXPECT_EQ(crc32Ieee("6789", crc32Ieee("12345")), 0xCBF43926u);
  EXPECT_EQ(crc32c(""), 0u);
  EXPECT_EQ(maskedCrc32c(""), 0xa282ead8u);
}

TEST(WireFields, WalksAMessage) {
  // 1: 300, 2: "ab", 3: fixed64 1.5, 4: fixed32 1.5
  std::string Text = std::string("\x08\xAC\x02\x12\x02"
                                 "ab\x19") +
                     little(llvm::bit_cast<uint64_t>(1.5)) + '\x25' +
                     little(llvm::bit_cast<uint32_t>(1.5f));
  WireFields F(Text);
  ASSERT_TRUE(F.next());
  EXPECT_TRUE(F.is(1, WireFields::Varint));
  EXPECT_EQ(F.asInt(), 300);
  ASSERT_TRUE(F.next());
  EXPECT_TRUE(F.is(2, WireFields::Bytes));
  EXPECT_EQ(F.bytes(), "ab");
  ASSERT_TRUE(F.next());
  EXPECT_EQ(F.asDouble(), 1.5);
  ASSERT_TRUE(F.next());
  EXPECT_EQ(F.asFloat(), 1.5f);
  EXPECT_FALSE(F.next());
  EXPECT_FALSE(F.broken());
}

TEST(WireFields, StopsAtWhatIsNoField) {
  const StringRef Broken[] = {
      StringRef("\x08", 1),         // a number is missing
      StringRef("\x12\x05" "ab", 4), // five bytes are not there
      StringRef("\x12\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\x01", 11),
      StringRef("\x19\0\0", 3),     // fixed64
      StringRef("\x0B", 1),         // a group
      StringRef("\0\0", 2),         // field 0
      StringRef("\x08\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\x01", 12),
  };
  for (StringRef Text : Broken) {
    WireFields F(Text);
    EXPECT_FALSE(F.next());
    EXPECT_TRUE(F.broken());
    EXPECT_FALSE(F.next());
  }
}

TEST(WireFields, ReadsRepeatedNumbers) {
  std::vector<uint64_t> Seen;
  auto Each = [&](uint64_t V) { Seen.push_back(V); };
  WireFields Packed(StringRef("\x3A\x03\x01\xAC\x02", 5));
  ASSERT_TRUE(Packed.next());
  EXPECT_TRUE(Packed.forEach(WireFields::Varint, Each));
  WireFields Plain(StringRef("\x38\x07", 2));
  ASSERT_TRUE(Plain.next());
  EXPECT_TRUE(Plain.forEach(WireFields::Varint, Each));
  EXPECT_EQ(Seen, (std::vector<uint64_t>{1, 300, 7}));
  WireFields Cut(StringRef("\x3A\x02\x01\xAC", 4));
  ASSERT_TRUE(Cut.next());
  EXPECT_FALSE(Cut.forEach(WireFields::Varint, Each));
}

TEST(SummaryValue, TellsScalarsFromTensors) {
  // TensorProto{dtype DT_FLOAT, float_val [1.5]} and the same with two.
  std::string One = little(llvm::bit_cast<uint32_t>(1.5f));
  std::string Type("\x08\x01", 2);
  auto Of = [&](const std::string &Body) {
    return readSummaryValue(bytes(1, "t") + bytes(8, Type + Body));
  };
  EXPECT_EQ(Of(bytes(5, One)).Number, 1.5);
  EXPECT_EQ(Of(bytes(4, One)).Number, 1.5);
  EXPECT_FALSE(Of(bytes(5, One + One)).Number);
  EXPECT_FALSE(Of(bytes(4, One + One)).Number);
  EXPECT_FALSE(Of("").Number);
  // A constant of three elements: version 0 repeats the one given.
  std::string Three = bytes(2, bytes(2, StringRef("\x08\x03", 2)));
  EXPECT_FALSE(Of(Three + bytes(5, One)).Number);
}

TEST_F(TensorBoard, ReadsWhatADamagedRecordLeaves) {
  std::string Text = events(5);
  EXPECT_EQ(match(R, Text), Match::Certain);
  read(R, Text);
  ASSERT_EQ(rows(TableId::scalars), 5u);
  EXPECT_EQ(scalar(0), "1|loss|1|2");
  EXPECT_TRUE(Said.empty());
  // Each byte of the third record in turn.
  size_t Size = lossEvent(1, 1).size(), Begin = Text.size() - 3 * Size;
  for (size_t I = 0; I != Size; ++I) {
    std::string Damaged = Text;
    Damaged[Begin + I] ^= 0x20;
    read(R, Damaged);
    EXPECT_EQ(rows(TableId::scalars), 4u) << I;
    ASSERT_EQ(Said.size(), 1u) << I;
    EXPECT_EQ(Said[0], "F: 1 record is damaged, the first at byte " +
                           std::to_string(Begin));
  }
}

TEST_F(TensorBoard, ReadsAFileThatGrows) {
  std::string Text = events(3);
  size_t Size = lossEvent(1, 1).size();
  for (size_t Cut = 1; Cut != Size; ++Cut) {
    read(R, StringRef(Text).drop_back(Cut));
    EXPECT_EQ(rows(TableId::scalars), 2u) << Cut;
    ASSERT_EQ(Said.size(), 1u);
    EXPECT_EQ(Said[0], "F: the last " + std::to_string(Size - Cut) +
                           " bytes are an unfinished record");
  }
}

TEST_F(TensorBoard, LeavesDataSetsAlone) {
  EXPECT_EQ(match(R, tfRecord("an example of a data set")), Match::No);
  EXPECT_EQ(match(R, ""), Match::No);
  EXPECT_EQ(match(R, "short"), Match::No);
}

TEST_F(Wandb, ReadsWhatADamagedRecordLeaves) {
  std::string Text = wandbFile(5);
  EXPECT_EQ(match(R, Text), Match::Certain);
  read(R, Text);
  ASSERT_EQ(rows(TableId::scalars), 5u);
  EXPECT_EQ(scalar(2), "3|loss|7|3");
  EXPECT_TRUE(Said.empty());
  size_t Size = chunk(1, history(1)).size(), Begin = Text.size() - 3 * Size;
  for (size_t I = 0; I != Size; ++I) {
    std::string Damaged = Text;
    Damaged[Begin + I] ^= 0x20;
    read(R, Damaged);
    // A wrong length hides where the next one begins: the block is lost.
    bool Length = I == 4 || I == 5;
    EXPECT_EQ(rows(TableId::scalars), Length ? 2u : 4u) << I;
    EXPECT_GE(Said.size(), 1u) << I;
  }
}

TEST_F(Wandb, JoinsPieces) {
  std::string Record = history(9);
  std::string Text = wandbFile(1) + chunk(2, Record.substr(0, 5)) +
                     chunk(3, Record.substr(5, 4)) + chunk(3, "") +
                     chunk(4, Record.substr(9));
  read(R, Text);
  ASSERT_EQ(rows(TableId::scalars), 2u);
  EXPECT_EQ(scalar(1), "9|loss|7|2");
  // Pieces of which one is missing are no record.
  read(R, wandbFile(1) + chunk(2, Record.substr(0, 5)) +
              chunk(1, history(3)) + chunk(4, "x"));
  EXPECT_EQ(rows(TableId::scalars), 2u);
  EXPECT_EQ(scalar(1), "3|loss|7|2");
  EXPECT_EQ(Said.size(), 1u);
  read(R, wandbFile(1) + chunk(2, Record.substr(0, 5)));
  EXPECT_EQ(rows(TableId::scalars), 1u);
  EXPECT_EQ(Said.at(0), "F: the last record is unfinished");
}

TEST_F(Wandb, PassesOverReservedRoom) {
  std::string Text = wandbFile(1);
  Text.resize(WandbRecords::BlockBytes, '\0');
  read(R, Text + chunk(1, history(2)));
  EXPECT_EQ(rows(TableId::scalars), 2u);
  EXPECT_TRUE(Said.empty());
}

TEST_F(Mlflow, TakesTheKeyFromThePlace) {
  StringRef Text = "1767603597600 2.5 10\n1767603598600 nan 20\n";
  ASSERT_FALSE(sys::fs::create_directories(Folder + "/run/metrics/train"));
  EXPECT_EQ(match(R, Text, "run/metrics/train/loss"), Match::Likely);
  EXPECT_EQ(match(R, Text), Match::No);
  EXPECT_EQ(match(R, "2.5 10\n", "run/metrics/train/loss"), Match::No);
  write("status: 3\n", "run/meta.yaml");
  EXPECT_EQ(match(R, Text, "run/metrics/train/loss"), Match::Certain);
  EXPECT_EQ(match(R, "0 2.5 10\n", "run/metrics/train/loss"), Match::Certain);
  read(R, Text, "run/metrics/train/loss");
  EXPECT_EQ(S->Run, (Folder + "/run").str());
  EXPECT_EQ(scalar(0), "10|loss|2.5|1");
  EXPECT_EQ(scalar(1), "20|loss|nan|2");
}

/// Random damage: the readers come back, and with no more rows than whole
/// records could hold.
static void damage(StringRef Text, function_ref<void(StringRef)> Read) {
  std::mt19937 Random(1);
  for (unsigned Round = 0; Round != 1500; ++Round) {
    std::string Damaged = Text.str();
    for (unsigned I = 0; I <= Round % 4; ++I) {
      size_t At = Random() % Damaged.size();
      switch (Random() % 4) {
      case 0:
        Damaged[At] = static_cast<char>(Random());
        break;
      case 1:
        Damaged.erase(At, Random() % 16);
        break;
      case 2:
        Damaged.insert(At, Damaged.substr(Random() % Damaged.size(), 32));
        break;
      case 3:
        Damaged[At] ^= static_cast<char>(1 << Random() % 8);
        break;
      }
      if (Damaged.empty())
        Damaged = "x";
    }
    Read(Damaged);
  }
}

TEST_F(TensorBoard, SurvivesDamage) {
  damage(events(20), [&](StringRef Text) {
    read(R, Text);
    EXPECT_LE(rows(TableId::scalars), Text.size() / 30);
  });
}

TEST_F(Wandb, SurvivesDamage) {
  damage(wandbFile(20), [&](StringRef Text) {
    read(R, Text);
    EXPECT_LE(rows(TableId::scalars), Text.size() / 20);
  });
}

/// The same with right checksums, so that the damage reaches the messages.
TEST_F(TensorBoard, SurvivesDamagedMessages) {
  std::string Record = lossEvent(1, 1);
  damage(StringRef(Record).drop_front(12).drop_back(4), [&](StringRef Text) {
    read(R, events(1) + tfRecord(Text) + lossEvent(3, 3));
    EXPECT_GE(rows(TableId::scalars), 2u);
  });
}

TEST_F(Wandb, SurvivesDamagedMessages) {
  damage(history(2), [&](StringRef Text) {
    read(R, wandbFile(1) + chunk(1, Text) + chunk(1, history(3)));
    EXPECT_GE(rows(TableId::scalars), 2u);
  });
}
