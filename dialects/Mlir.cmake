# Finds MLIR/LLVM 22 and gives the helpers with which dialects and compiler stages are built.
find_package(MLIR 22.1 REQUIRED CONFIG HINTS /usr/lib/llvm-22)
list(APPEND CMAKE_MODULE_PATH "${MLIR_CMAKE_DIR}" "${LLVM_CMAKE_DIR}")
separate_arguments(SLUICE_LLVM_DEFINITIONS NATIVE_COMMAND "${LLVM_DEFINITIONS}")

# Flags of every file that includes MLIR: no exceptions as in Debian's LLVM; -O1 because the compiler's own compile time
# matters more than its speed; assertions stay on, since Debian's MLIR has none and those in its headers catch misuse.
add_library(sluice_mlir INTERFACE)
target_link_libraries(sluice_mlir INTERFACE sluice_warnings MLIR LLVM)
target_include_directories(sluice_mlir SYSTEM INTERFACE "${CMAKE_BINARY_DIR}" ${MLIR_INCLUDE_DIRS} ${LLVM_INCLUDE_DIRS})
target_compile_definitions(sluice_mlir INTERFACE ${SLUICE_LLVM_DEFINITIONS})
target_compile_options(sluice_mlir INTERFACE -fno-exceptions -O1 -UNDEBUG)
include_directories(SYSTEM ${MLIR_INCLUDE_DIRS})

# One precompiled header for all of the compiler; MLIR's headers are 98 % of the compile time.
file(WRITE "${CMAKE_BINARY_DIR}/sluice_pch.cpp" "")
add_library(sluice_pch OBJECT "${CMAKE_BINARY_DIR}/sluice_pch.cpp")
target_link_libraries(sluice_pch PRIVATE sluice_mlir)
target_precompile_headers(sluice_pch PRIVATE "${CMAKE_CURRENT_LIST_DIR}/Mlir.pch.h")
if(CMAKE_CXX_COMPILER_ID MATCHES "Clang")
  target_compile_options(sluice_pch PRIVATE -fpch-instantiate-templates)
endif()

# sluice_add_compiler_library(NAME sources... LIBS libs...): a static library of MLIR code, optimised lightly
# (compile time of the compiler matters more than its own speed).
function(sluice_add_compiler_library name)
  cmake_parse_arguments(ARG "" "" "SOURCES;LIBS" ${ARGN})
  add_library(${name} STATIC ${ARG_SOURCES})
  target_link_libraries(${name} PUBLIC sluice_mlir ${ARG_LIBS})
  target_precompile_headers(${name} REUSE_FROM sluice_pch)
  if(CMAKE_CXX_COMPILER_ID MATCHES "Clang")
    target_compile_options(${name} PRIVATE -fpch-instantiate-templates)
  endif()
endfunction()

set(SLUICE_TBLGEN_INCLUDES ${MLIR_INCLUDE_DIRS} ${LLVM_INCLUDE_DIRS})
list(REMOVE_DUPLICATES SLUICE_TBLGEN_INCLUDES)
list(TRANSFORM SLUICE_TBLGEN_INCLUDES PREPEND "-I")
find_program(SLUICE_MLIR_TBLGEN mlir-tblgen HINTS "${LLVM_TOOLS_BINARY_DIR}" REQUIRED)

# sluice_tablegen(TD OUT args...): build/OUT from TD (both relative to the root), remade when any included .td changes.
function(sluice_tablegen td out)
  get_filename_component(folder "${CMAKE_BINARY_DIR}/${out}" DIRECTORY)
  file(MAKE_DIRECTORY "${folder}")
  add_custom_command(
    OUTPUT "${CMAKE_BINARY_DIR}/${out}"
    COMMAND ${SLUICE_MLIR_TBLGEN} ${ARGN} -I "${CMAKE_SOURCE_DIR}" ${SLUICE_TBLGEN_INCLUDES}
            "${CMAKE_SOURCE_DIR}/${td}" --write-if-changed -o "${CMAKE_BINARY_DIR}/${out}" -d "${CMAKE_BINARY_DIR}/${out}.d"
    DEPFILE "${CMAKE_BINARY_DIR}/${out}.d"
    DEPENDS "${CMAKE_SOURCE_DIR}/${td}" ${SLUICE_MLIR_TBLGEN}
    COMMENT "tblgen ${out}")
endfunction()

# sluice_add_dialect(NAME PREFIX): sluice_dialect_NAME from dialects/NAME/*.td and *.cpp. PREFIX names the files (Lm -> LmOps.td).
function(sluice_add_dialect name prefix)
  set(dir "dialects/${name}")
  set(ops "${dir}/${prefix}Ops.td")
  sluice_tablegen(${ops} ${dir}/${prefix}Ops.h.inc -gen-op-decls)
  sluice_tablegen(${ops} ${dir}/${prefix}Ops.cpp.inc -gen-op-defs)
  sluice_tablegen(${ops} ${dir}/${prefix}Dialect.h.inc -gen-dialect-decls -dialect=${name})
  sluice_tablegen(${ops} ${dir}/${prefix}Dialect.cpp.inc -gen-dialect-defs -dialect=${name})
  sluice_tablegen(${ops} ${dir}/${prefix}Types.h.inc -gen-typedef-decls -typedefs-dialect=${name})
  sluice_tablegen(${ops} ${dir}/${prefix}Types.cpp.inc -gen-typedef-defs -typedefs-dialect=${name})
  sluice_tablegen(${ops} ${dir}/${prefix}Attrs.h.inc -gen-attrdef-decls -attrdefs-dialect=${name})
  sluice_tablegen(${ops} ${dir}/${prefix}Attrs.cpp.inc -gen-attrdef-defs -attrdefs-dialect=${name})
  # Enums are generated for all that a file includes, so they come from the dialect's own base.
  set(enums ${ops})
  if(EXISTS "${CMAKE_SOURCE_DIR}/${dir}/${prefix}Base.td")
    set(enums "${dir}/${prefix}Base.td")
  endif()
  sluice_tablegen(${enums} ${dir}/${prefix}Enums.h.inc -gen-enum-decls)
  sluice_tablegen(${enums} ${dir}/${prefix}Enums.cpp.inc -gen-enum-defs)
  set(generated Ops.h.inc Ops.cpp.inc Dialect.h.inc Dialect.cpp.inc Types.h.inc Types.cpp.inc Attrs.h.inc Attrs.cpp.inc Enums.h.inc Enums.cpp.inc)
  if(EXISTS "${CMAKE_SOURCE_DIR}/${dir}/${prefix}Interfaces.td")
    sluice_tablegen(${dir}/${prefix}Interfaces.td ${dir}/${prefix}Interfaces.h.inc -gen-op-interface-decls)
    sluice_tablegen(${dir}/${prefix}Interfaces.td ${dir}/${prefix}Interfaces.cpp.inc -gen-op-interface-defs)
    list(APPEND generated Interfaces.h.inc Interfaces.cpp.inc)
  endif()
  list(TRANSFORM generated PREPEND "${CMAKE_BINARY_DIR}/${dir}/${prefix}")
  add_custom_target(sluice_${name}_gen DEPENDS ${generated})
  file(GLOB sources CONFIGURE_DEPENDS "${CMAKE_SOURCE_DIR}/${dir}/*.cpp")
  sluice_add_compiler_library(sluice_dialect_${name} SOURCES ${sources})
  add_dependencies(sluice_dialect_${name} sluice_${name}_gen)
endfunction()

# sluice_add_stage(STAGE LIBS libs...): compiler/STAGE/*.cpp; where STAGE/Passes.td exists its declarations are generated,
# so that a new pass is one def, one .cpp and one test, with no CMake edit.
function(sluice_add_stage stage)
  cmake_parse_arguments(ARG "" "" "LIBS" ${ARGN})
  string(REPLACE "/" "_" id "${stage}")
  file(GLOB sources CONFIGURE_DEPENDS "${CMAKE_SOURCE_DIR}/compiler/${stage}/*.cpp")
  if(NOT sources)
    add_library(sluice_${id} INTERFACE)
    target_link_libraries(sluice_${id} INTERFACE ${ARG_LIBS})
    return()
  endif()
  sluice_add_compiler_library(sluice_${id} SOURCES ${sources} LIBS ${ARG_LIBS})
  if(EXISTS "${CMAKE_SOURCE_DIR}/compiler/${stage}/Passes.td")
    string(SUBSTRING ${id} 0 1 first)
    string(TOUPPER ${first} first)
    string(SUBSTRING ${id} 1 -1 rest)
    sluice_tablegen(compiler/${stage}/Passes.td compiler/${stage}/Passes.h.inc -gen-pass-decls -name=${first}${rest})
    add_custom_target(sluice_${id}_passes_gen DEPENDS "${CMAKE_BINARY_DIR}/compiler/${stage}/Passes.h.inc")
    add_dependencies(sluice_${id} sluice_${id}_passes_gen)
  endif()
endfunction()
