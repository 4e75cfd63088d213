# SPDX-License-Identifier: GPL-3.0-or-later
# Each third-party library is one target dep_*; docs/dependencies.md says why.
find_package(PkgConfig REQUIRED)
find_package(Threads REQUIRED)

foreach(pair jansson=jansson yaml=yaml-0.1 sqlite=sqlite3 crypto=libcrypto
             jwt=libjwt microhttpd=libmicrohttpd curl=libcurl cap=libcap)
  string(REPLACE "=" ";" pair ${pair})
  list(GET pair 0 name)
  list(GET pair 1 module)
  pkg_check_modules(${name} REQUIRED IMPORTED_TARGET ${module})
  add_library(dep_${name} INTERFACE)
  target_link_libraries(dep_${name} INTERFACE PkgConfig::${name})
endforeach()

add_library(dep_threads INTERFACE)
target_link_libraries(dep_threads INTERFACE Threads::Threads)

# Slurm ships no pkg-config file. The library must be the release of the
# controller, or one that the controller still speaks.
find_path(SLURM_INCLUDE_DIR slurm/slurm.h HINTS "${SLURM_PREFIX}/include")
find_library(SLURM_LIBRARY slurm
  HINTS "${SLURM_PREFIX}/lib" "${SLURM_PREFIX}/lib64")
if(NOT SLURM_INCLUDE_DIR OR NOT SLURM_LIBRARY)
  message(FATAL_ERROR "libslurm not found: install libslurm-dev or pass "
                      "-DSLURM_PREFIX=")
endif()
file(STRINGS "${SLURM_INCLUDE_DIR}/slurm/slurm_version.h" slurm_number
     REGEX "define SLURM_VERSION_NUMBER +0x")
string(REGEX MATCH "0x[0-9a-fA-F]+" slurm_number "${slurm_number}")
math(EXPR slurm_number "${slurm_number}")
math(EXPR slurm_least "0x160500") # 22.05
math(EXPR slurm_known "0x1a05ff") # 26.05
if(slurm_number LESS slurm_least)
  message(FATAL_ERROR "Slurm 22.05 or newer is needed")
elseif(slurm_number GREATER slurm_known)
  message(WARNING "This Slurm is newer than 26.05, the last one tested")
endif()
add_library(dep_slurm INTERFACE)
target_include_directories(dep_slurm SYSTEM INTERFACE "${SLURM_INCLUDE_DIR}")
target_link_libraries(dep_slurm INTERFACE "${SLURM_LIBRARY}")
