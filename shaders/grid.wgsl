// Grids of more than 65,535 workgroups are folded into y; these give back the linear number.
fn linear_group(group: vec3<u32>, groups: vec3<u32>) -> u32 { return group.y * groups.x + group.x; }
