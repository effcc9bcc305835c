package symbol

// MaxSymbols is the number of symbols that are read of one table: vmlinux has some hundred thousand.
const MaxSymbols = 4 << 20

// MaxNames is the number of bytes that the names of a table's symbols may have together, each counted in full, by the size of the strings
// that they are parts of. Linkers let a name be the end of another one, and symbols of one name share it; where names overlap much more than that, a
// small file would take all memory.
func MaxNames(strings int) int {
	const some, most = 16 << 20, 256 << 20
	return min(some+4*strings, most)
}
