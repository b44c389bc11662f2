// Makes the studies that come with the program; registry.cpp adds them in this order. Each is
// defined at the end of the file of its study.
#pragma once

#include <memory>

#include "train/studies/study.h"

namespace mobius {

std::unique_ptr<Study> make_e1_normalizer();
std::unique_ptr<Study> make_e2_stability();
std::unique_ptr<Study> make_e3_kernels();
std::unique_ptr<Study> make_e4_tree();
std::unique_ptr<Study> make_e4b_blocks();
std::unique_ptr<Study> make_e5_far_field();
std::unique_ptr<Study> make_e5b_degrees();
std::unique_ptr<Study> make_e6_pruning();
std::unique_ptr<Study> make_e6b_retrieval();
std::unique_ptr<Study> make_e7_recall();
std::unique_ptr<Study> make_e8_decoding();
std::unique_ptr<Study> make_e9_spectrum();
std::unique_ptr<Study> make_identities();

}  // namespace mobius
