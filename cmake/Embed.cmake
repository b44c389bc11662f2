# mobius_embed(TARGET NAME FILE) compiles the text of a file into a target, as mobius::embedded::NAME (declared in
# train/page/embedded.h).
function(mobius_embed target name file)
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${file})
  file(READ ${file} text)
  set(source ${CMAKE_CURRENT_BINARY_DIR}/embedded/${name}.cpp)
  file(WRITE ${source}.new "#include \"train/page/embedded.h\"

const std::string_view mobius::embedded::${name} = R\"embedded(${text})embedded\";
")
  file(COPY_FILE ${source}.new ${source} ONLY_IF_DIFFERENT)
  target_sources(${target} PRIVATE ${source})
endfunction()
