// Package reference writes the reference of a command line as Markdown, a file per command.
package reference

import (
	"fmt"
	"os"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"
)

// Main writes the reference of a command into the folder that the program's only argument names.
func Main(command *cobra.Command) {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: reference FOLDER")
		os.Exit(2)
	}
	command.DisableAutoGenTag = true // no dates: the same source makes the same files
	if err := doc.GenMarkdownTree(command, os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, "Error:", err)
		os.Exit(1)
	}
}
