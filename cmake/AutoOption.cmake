# mobius_auto_option(NAME HELP) defines a cache variable that is AUTO (on if available), ON (required) or OFF.
function(mobius_auto_option name help)
  set(${name} AUTO CACHE STRING "${help}: AUTO, ON or OFF")
  set_property(CACHE ${name} PROPERTY STRINGS AUTO ON OFF)
  if(NOT ${name} MATCHES "^(AUTO|ON|OFF)$")
    message(FATAL_ERROR "${name}: expected AUTO, ON or OFF, got '${${name}}'")
  endif()
endfunction()
