# SPDX-License-Identifier: GPL-3.0-or-later
# Warnings and hardening, each flag probed: an older compiler goes without.
include(CheckCCompilerFlag)

add_library(sluice_flags INTERFACE)
target_compile_definitions(sluice_flags INTERFACE _GNU_SOURCE
                           SLUICE_VERSION="${PROJECT_VERSION}")

set(flags
    -Wall -Wextra -Wshadow -Wconversion -Wformat=2 -Wstrict-prototypes
    -Wmissing-prototypes -Wundef -Wvla -Wcast-qual -Wwrite-strings
    -Wimplicit-fallthrough -Wnull-dereference -fstack-protector-strong
    -fstack-clash-protection -fcf-protection=full -fno-common
    -ftrivial-auto-var-init=zero -fvisibility=hidden)
if(SLUICE_WERROR)
  list(APPEND flags -Werror)
endif()
foreach(flag ${flags})
  string(MAKE_C_IDENTIFIER "HAVE${flag}" have)
  check_c_compiler_flag(${flag} ${have})
  if(${have})
    target_compile_options(sluice_flags INTERFACE ${flag})
  endif()
endforeach()

if(SLUICE_SANITIZE)
  target_compile_options(sluice_flags INTERFACE
    -fsanitize=${SLUICE_SANITIZE} -fno-omit-frame-pointer)
  target_link_options(sluice_flags INTERFACE -fsanitize=${SLUICE_SANITIZE})
  if(SLUICE_SANITIZE MATCHES "undefined")
    target_compile_options(sluice_flags INTERFACE -fno-sanitize-recover=all)
  endif()
elseif(NOT CMAKE_BUILD_TYPE STREQUAL "Debug")
  target_compile_options(sluice_flags INTERFACE
    -U_FORTIFY_SOURCE -D_FORTIFY_SOURCE=3)
endif()
target_link_options(sluice_flags INTERFACE -Wl,-z,relro,-z,now,--as-needed)
if(NOT SLUICE_SANITIZE)
  # pie only where the link allows it; CMAKE_POSITION_INDEPENDENT_CODE compiles
  include(CheckPIESupported)
  check_pie_supported(LANGUAGES C)
endif()
