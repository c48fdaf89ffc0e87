//===- GenerationStreamsTest.cpp --------------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "Readers/GenerationRecords.h"
#include "Readers/RequestRows.h"
#include "TextFileTest.h"

using namespace culprit;
using namespace llvm;

class Generation : public TextFileTest {
protected:
  GenerationRecordsReader R;
  std::string answer(size_t Row) {
    return row(TableId::requests, Row, {requests::id, requests::response});
  }
  /// \p Count choices, of which each says its number.
  static std::string choices(unsigned Count, StringRef Before,
                             StringRef After) {
    std::string Out;
    for (unsigned I = 0; I != Count; ++I)
      Out += (I ? "," : "") + ("{\"index\":" + std::to_string(I) + ",") +
             (Before + "\"n" + std::to_string(I) + "\"" + After).str() + "}";
    return Out;
  }
};

TEST_F(Generation, AnswersToOneRequestAreTheirOwn) {
  // The prompt is longer than what is kept of it.
  std::string Prompt(RequestRows::MaxText + 5, 'p');
  read(R, "{\"id\":\"a\",\"prompt\":\"" + Prompt + "\",\"choices\":[" +
              choices(5000, "\"text\":", "") +
              ",{\"index\":5000,\"finish_reason\":\"length\"}]}\n");
  ASSERT_EQ(rows(TableId::requests), 5001u);
  EXPECT_EQ(answer(0), "a|n0");
  EXPECT_EQ(answer(4999), "a#4999|n4999");
  // Nothing of one answer stays in the next.
  EXPECT_EQ(answer(5000), "a#5000|-");
  EXPECT_EQ(row(TableId::requests, 4999, {requests::prompt}).size(),
            RequestRows::MaxText);
  EXPECT_EQ(row(TableId::requests, 4999, {requests::finish_reason}), "-");
}

TEST_F(Generation, StreamsOfOneChunkAreWrittenWhenThereAreMany) {
  std::string Chunk =
      "data: {\"id\":\"a\",\"object\":\"chat.completion.chunk\","
      "\"choices\":[" +
      choices(5000, "\"delta\":{\"content\":", "}") + "]}\n\n";
  read(R, Chunk);
  ASSERT_EQ(rows(TableId::requests), 5000u);
  EXPECT_EQ(answer(0), "a|n0");
  EXPECT_EQ(answer(4999), "a#4999|n4999");
}
