//===- Main.cpp - Compiles the shipped detectors ----------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
//
//   compile-detectors FOLDER FILE
//
// Writes the store of the detectors of FOLDER (Script/DetectorStore.h) to FILE.
// A step of the build; it is not installed.
//
//===----------------------------------------------------------------------===//

#include "Script/LuaDetector.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/raw_ostream.h"

using namespace culprit;

int main(int Count, char **Words) {
  if (Count != 3) {
    llvm::errs() << "usage: compile-detectors FOLDER FILE\n";
    return 2;
  }
  llvm::Expected<std::string> Store = makeDetectorStore(Words[1], {});
  if (!Store) {
    llvm::errs() << toString(Store.takeError()) << "\n";
    return 1;
  }
  // Whole or not at all: the program may be running.
  llvm::Error E = llvm::writeToOutput(Words[2], [&](llvm::raw_ostream &Out) {
    Out << *Store;
    return llvm::Error::success();
  });
  if (!E)
    return 0;
  llvm::errs() << toString(std::move(E)) << "\n";
  return 1;
}
