// Command ringmaster writes the reference of the command line.
package main

import (
	"github.com/ringmaster-project/ringmaster/cmd/ringmaster/app"
	"github.com/ringmaster-project/ringmaster/cmd/ringmaster/reference"
)

func main() { reference.Main(app.New()) }
