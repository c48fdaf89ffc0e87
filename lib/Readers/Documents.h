//===- Documents.h - Files of data sets -------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
///
/// \file
/// Reads examples of data sets into `documents`: JSON Lines or a list, with a
/// text a record, turns of a conversation (messages with role and content, or
/// ShareGPT's from and value), or a question with its answer (Alpaca's
/// instruction, input and output among them). Records of questions and answers
/// are taken for a data set only where the file is named like one or they say
/// their split; others are what a model answered, see GenerationRecords.
///
/// Files may be many times the memory. JSON Lines are streamed, and what is
/// kept of the texts is bounded, see DocumentRows.
///
//===----------------------------------------------------------------------===//

#ifndef CULPRIT_READERS_DOCUMENTS_H
#define CULPRIT_READERS_DOCUMENTS_H

#include "Readers/Reader.h"

namespace culprit {

class DocumentsReader : public Reader {
public:
  llvm::StringRef name() const override { return "data set"; }
  llvm::StringRef about() const override {
    return "examples of a data set as JSON Lines or a JSON list: texts, "
           "conversations, questions with answers";
  }
  Match matches(const InputFile &File) const override;
  llvm::Error read(InputFile &File, Source &Into) const override;
};

} // namespace culprit

#endif // CULPRIT_READERS_DOCUMENTS_H
