package direct

import "fmt"

func printOpenError(args []string)      { fmt.Println("") }
func printFileLimitError(args []string) { fmt.Println("") }
