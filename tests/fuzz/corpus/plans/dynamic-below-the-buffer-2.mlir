kernel.dynamic @open shape <?, 3> from <(a, b) : [a, b]> to <(a, b) : [a*3, b*-1]> elements <f32 to f32>
