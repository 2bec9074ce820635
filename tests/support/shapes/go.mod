module shapes

go 1.21
