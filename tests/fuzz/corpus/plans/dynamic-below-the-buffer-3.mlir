kernel.dynamic @open shape <?, 3> from <(a, b) : [a, b]> to <(a, b) : [b*-4, a]> elements <f32 to f32>
