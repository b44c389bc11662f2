#include "core/comm/launch.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/thread_limit.h"
#include "tests/error_of.h"

namespace mobius::launch_test {
namespace {

using ::testing::HasSubstr;

Environment open_mpi(const std::string& rank, const std::string& size) {
  return {{"OMPI_COMM_WORLD_RANK", rank},
          {"OMPI_COMM_WORLD_SIZE", size},
          {"OMPI_COMM_WORLD_LOCAL_RANK", rank},
          {"OMPI_COMM_WORLD_LOCAL_SIZE", size}};
}

Environment torchrun(const std::string& rank, const std::string& size) {
  return {{"RANK", rank}, {"WORLD_SIZE", size}, {"LOCAL_RANK", rank}, {"LOCAL_WORLD_SIZE", size}};
}

Environment srun(const std::string& rank, const std::string& size) {
  return {{"SLURM_STEP_ID", "0"}, {"SLURM_PROCID", rank}, {"SLURM_STEP_NUM_TASKS", size},
          {"SLURM_NTASKS", "8"},  {"PMIX_RANK", rank},    {"SLURM_LOCALID", rank}};
}

Environment with(Environment environment, const Environment& more) {
  for (const auto& [name, value] : more) environment[name] = value;
  return environment;
}

void expect_place(const Launch& launch, int rank, int size) {
  EXPECT_EQ(launch.rank, rank);
  EXPECT_EQ(launch.size, size);
  EXPECT_EQ(launch.local_rank, rank);
}

std::string refusal(const Environment& environment) {
  return error_of([&] { launch_of(environment); });
}

TEST(Launch, WithoutVariablesIsOneRank) {
  const Launch launch = launch_of({{"HOME", "/root"}});
  EXPECT_EQ(launch.rank, 0);
  EXPECT_EQ(launch.size, 1);
  EXPECT_FALSE(launch.local_rank.has_value());
}

TEST(Launch, ReadsEveryLauncher) {
  expect_place(launch_of(open_mpi("2", "4")), 2, 4);
  expect_place(launch_of(srun("1", "3")), 1, 3);
  expect_place(launch_of({{"PMI_RANK", "1"}, {"PMI_SIZE", "2"}, {"MPI_LOCALRANKID", "1"}}), 1, 2);
  EXPECT_EQ(launch_of(open_mpi("2", "4")).local_size, 4);
}

TEST(Launch, TakesSlurmsVariablesOnlyWithinSrun) {
  EXPECT_EQ(launch_of({{"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "4"}}).size, 1);
  const Launch old = launch_of(
      {{"SLURM_STEP_ID", "0"}, {"SLURM_PROCID", "3"}, {"SLURM_NTASKS", "4"}, {"PMI_FD", "5"}});
  EXPECT_EQ(old.rank, 3);
  EXPECT_EQ(old.size, 4);
}

TEST(Launch, PrefersTheInnermostLauncher) {
  expect_place(launch_of(with(srun("0", "2"), open_mpi("3", "4"))), 3, 4);
}

TEST(Launch, TakesTorchrunsVariablesWhereTheyAgree) {
  expect_place(launch_of(with(open_mpi("1", "2"), torchrun("1", "2"))), 1, 2);
  expect_place(launch_of(with(srun("1", "2"), torchrun("1", "2"))), 1, 2);
  EXPECT_EQ(launch_of(with(srun("1", "2"), torchrun("1", "2"))).local_size, 2);
  EXPECT_EQ(launch_of(torchrun("0", "1")).size, 1);
}

TEST(Launch, RefusesLaunchersThatContradictEachOther) {
  EXPECT_THAT(refusal(with(open_mpi("1", "2"), torchrun("0", "2"))),
              HasSubstr("RANK=0, but OMPI_COMM_WORLD_RANK=1: two launchers contradict each other"));
  EXPECT_THAT(refusal(with(open_mpi("1", "2"), torchrun("1", "4"))),
              HasSubstr("WORLD_SIZE=4, but OMPI_COMM_WORLD_SIZE=2"));
  EXPECT_THAT(refusal(with(open_mpi("1", "2"), {{"LOCAL_RANK", "0"}})),
              HasSubstr("LOCAL_RANK=0, but OMPI_COMM_WORLD_LOCAL_RANK=1"));
  EXPECT_THAT(refusal(with(srun("1", "3"), torchrun("1", "2"))),
              HasSubstr("WORLD_SIZE=2, but SLURM_STEP_NUM_TASKS=3"));
}

TEST(Launch, RefusesALauncherThatContradictsItself) {
  EXPECT_THAT(refusal(open_mpi("4", "4")),
              HasSubstr("OMPI_COMM_WORLD_RANK=4, but OMPI_COMM_WORLD_SIZE=4"));
  EXPECT_THAT(refusal({{"RANK", "0"}, {"WORLD_SIZE", "2"}, {"LOCAL_WORLD_SIZE", "4"}}),
              HasSubstr("LOCAL_WORLD_SIZE=4, but WORLD_SIZE=2"));
  EXPECT_THAT(refusal({{"LOCAL_RANK", "2"}, {"LOCAL_WORLD_SIZE", "2"}}),
              HasSubstr("LOCAL_RANK=2, but LOCAL_WORLD_SIZE=2"));
  EXPECT_THAT(refusal({{"OMPI_COMM_WORLD_SIZE", "2"}}),
              HasSubstr("OMPI_COMM_WORLD_SIZE=2, but OMPI_COMM_WORLD_RANK is not set"));
  EXPECT_THAT(refusal({{"RANK", "1"}}), HasSubstr("RANK=1, but WORLD_SIZE is not set"));
}

TEST(Launch, RefusesWhatIsNoNumber) {
  for (const std::string text : {"two", "-1", "1.5", "3x", "99999999999"}) {
    EXPECT_EQ(refusal({{"WORLD_SIZE", text}}),
              "launch: WORLD_SIZE=" + text + ": expected a whole number, 0 or more");
  }
}

TEST(Launch, NamesPmixWhereSrunTellsMpiNothing) {
  Environment environment = srun("1", "3");
  environment.erase("PMIX_RANK");
  EXPECT_EQ(refusal(environment),
            "launch: srun started 3 ranks that cannot find each other; use srun --mpi=pmix");
  EXPECT_EQ(launch_of({{"SLURM_STEP_ID", "0"}, {"SLURM_NTASKS", "1"}}).size, 1);
  EXPECT_EQ(launch_of(with(environment, open_mpi("1", "2"))).size, 2);
}

TEST(Launch, NamesMpirunWhereTorchrunAloneAsksForRanks) {
  const std::string error = refusal(torchrun("1", "4"));
  EXPECT_THAT(error, HasSubstr("WORLD_SIZE=4, but no MPI launcher started this process"));
  EXPECT_THAT(error, HasSubstr("mpirun -n 4"));
}

TEST(ThreadsPerRank, ShareTheMachine) {
  EXPECT_EQ(threads_per_rank(launch_of(open_mpi("0", "4")), /*current=*/16, /*cores=*/16), 4);
  EXPECT_EQ(threads_per_rank(launch_of(open_mpi("0", "4")), 16, 2), 1);
  EXPECT_EQ(threads_per_rank(launch_of(open_mpi("0", "2")), 1, 16), 1);  // bound to a core
  EXPECT_EQ(threads_per_rank(launch_of({}), 16, 16), 16);
}

TEST(ThreadsPerRank, FollowTheLauncher) {
  const Environment slurm = with(srun("0", "2"), {{"SLURM_CPUS_PER_TASK", "3"}});
  EXPECT_EQ(threads_per_rank(launch_of(slurm), 16, 16), 3);
  const Environment both = with(slurm, {{"OMP_NUM_THREADS", "2"}});
  EXPECT_EQ(threads_per_rank(launch_of(both), /*current=*/2, 16), 2);
  EXPECT_EQ(threads_per_rank(launch_of(with(open_mpi("0", "2"), {{"OMP_NUM_THREADS", "5"}})), 5, 8),
            5);
  const Environment crowd = with(srun("0", "2"), {{"SLURM_CPUS_PER_TASK", "100000"}});
  EXPECT_EQ(threads_per_rank(launch_of(crowd), 16, 16), most_threads);
}

TEST(ThreadsPerRank, TakeTheFirstOfOpenMpsList) {
  for (const std::string text : {"4", "4,2", " 4 , 2", "4\t"}) {
    EXPECT_EQ(launch_of({{"OMP_NUM_THREADS", text}}).threads, 4) << text;
  }
  EXPECT_FALSE(launch_of({{"OMP_NUM_THREADS", " "}}).threads.has_value());
  EXPECT_EQ(launch_of({{"OMP_NUM_THREADS", "1024"}}).threads, 1024);
}

TEST(ThreadsPerRank, RefuseWhatIsNoNumberOfThreads) {
  for (const std::string text :
       {"99999999999999", "1025", "0", "-1", "two", "2x", ",2", "1.5", "0x4"}) {
    EXPECT_EQ(refusal({{"OMP_NUM_THREADS", text}}),
              "OMP_NUM_THREADS=" + text + ": expected a number of threads from 1 to 1024");
  }
}

}  // namespace
}  // namespace mobius::launch_test
