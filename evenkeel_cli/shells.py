"""The completion scripts for shells. Each calls `evenkeel __complete` for candidates."""

BASH = r"""
_evenkeel() {
    local word="${COMP_WORDS[COMP_CWORD]}" found line
    found="$(evenkeel __complete "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null)"
    COMPREPLY=()
    while IFS= read -r line; do
        case "$line" in
            :0) mapfile -t COMPREPLY < <(compgen -f -- "$word"); compopt -o filenames 2>/dev/null ;;
            :* | '') ;;
            *) COMPREPLY+=("${line%%$'\t'*}") ;;
        esac
    done <<< "$found"
}
complete -F _evenkeel evenkeel
"""
ZSH = r"""
#compdef evenkeel
_evenkeel() {
    local found line
    local -a values shown
    found="$(evenkeel __complete "${(@)words[2,CURRENT]}" 2>/dev/null)"
    for line in "${(@f)found}"; do
        case "$line" in
            :0) _files ;;
            :* | '') ;;
            *) values+=("${line%%$'\t'*}"); shown+=("${line/$'\t'/  -- }") ;;
        esac
    done
    (( $#values )) && compadd -l -d shown -a values
}
compdef _evenkeel evenkeel
"""
FISH = r"""
function __evenkeel_complete
    set -l typed (commandline -opc) (commandline -ct)
    for line in (evenkeel __complete $typed[2..-1] 2>/dev/null)
        switch $line
            case ':0'
                __fish_complete_path (commandline -ct)
            case ':*'
            case '*'
                echo $line
        end
    end
end
complete -c evenkeel -f -a '(__evenkeel_complete)'
"""
SCRIPTS = {"bash": BASH, "zsh": ZSH, "fish": FISH}
