#include "train/studies/builtin.h"

namespace mobius {

Registry<Study> builtin_studies() {
  Registry<Study> studies;
  add_study(studies, make_e1_normalizer);
  add_study(studies, make_e2_stability);
  add_study(studies, make_e3_kernels);
  add_study(studies, make_e4_tree);
  add_study(studies, make_e4b_blocks);
  add_study(studies, make_e5_far_field);
  add_study(studies, make_e5b_degrees);
  add_study(studies, make_e6_pruning);
  add_study(studies, make_e6b_retrieval);
  add_study(studies, make_e7_recall);
  add_study(studies, make_e8_decoding);
  add_study(studies, make_e9_spectrum);
  add_study(studies, make_identities);
  return studies;
}

}  // namespace mobius
