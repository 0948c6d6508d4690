package main

import (
	"archive/tar"
	"bytes"
	"fmt"
	"io"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
)

// entry is a file in an image, or a folder when its path ends with a slash.
type entry struct {
	path    string
	mode    int64
	content []byte
}

// userFiles have the user that programs run as, for programs that look it up.
func userFiles() []entry {
	return []entry{
		{path: "etc/", mode: 0o755},
		{path: "etc/group", mode: 0o644, content: fmt.Appendf(nil, "nonroot:x:%d:\n", nonroot)},
		{path: "etc/passwd", mode: 0o644, content: fmt.Appendf(nil,
			"nonroot:x:%d:%d:nonroot:/:/sbin/nologin\n", nonroot, nonroot)},
	}
}

// layer packs entries in their order. The same entries give the same layer.
func newLayer(entries []entry) (v1.Layer, error) {
	var packed bytes.Buffer
	writer := tar.NewWriter(&packed)
	for _, e := range entries {
		header := &tar.Header{Name: e.path, Mode: e.mode, Size: int64(len(e.content)), ModTime: epoch, Format: tar.FormatUSTAR}
		if err := writer.WriteHeader(header); err != nil {
			return nil, err
		}
		if _, err := writer.Write(e.content); err != nil {
			return nil, err
		}
	}
	if err := writer.Close(); err != nil {
		return nil, err
	}
	return tarball.LayerFromOpener(func() (io.ReadCloser, error) {
		return io.NopCloser(bytes.NewReader(packed.Bytes())), nil
	})
}
