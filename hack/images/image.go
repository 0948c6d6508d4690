package main

import (
	"fmt"
	"slices"
	"strings"
)

// image is an image of one of our programs, or of one of the distribution's.
type image struct {
	// name is the last part of the image's name, and the name of the program in it.
	name string
	// module is the folder of the Go module, from the repository's root.
	module string
	// program is the Go package of the program, from the module's folder.
	program string
	// packagedProgram is a program of the distribution, instead of one of ours.
	packaged *packagedProgram
}

func names(images []image) string {
	var all []string
	for _, i := range images {
		all = append(all, i.name)
	}
	return strings.Join(all, ", ")
}

// choose returns the images with the wanted names, or all without names.
func choose(images []image, wanted []string) ([]image, error) {
	if len(wanted) == 0 {
		return images, nil
	}
	var selected []image
	for _, name := range wanted {
		index := slices.IndexFunc(images, func(i image) bool { return i.name == name })
		if index < 0 {
			return nil, fmt.Errorf("unknown image %q (available: %s)", name, names(images))
		}
		selected = append(selected, images[index])
	}
	return selected, nil
}
