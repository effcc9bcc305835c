package symbol

// MaxSymbols is the number of symbols that are read from one table. vmlinux has a few hundred thousand.
const MaxSymbols = 4 << 20

// MaxNames returns how many bytes the names of a table's symbols may have in total, each counted in full, if its string table has the given
// size in bytes. Linkers let a name be the end of another name, and symbols with the same name share it. Without this limit, a small file
// whose names overlap much more than that would use all memory.
func MaxNames(strings int) int {
	const some, most = 16 << 20, 256 << 20
	return min(some+4*strings, most)
}
