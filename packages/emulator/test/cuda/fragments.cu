// nvcuda::wmma in every shape.
#include <mma.h>
using namespace nvcuda::wmma;
extern "C" __global__ void gemm(const half*a,const half*b,float*c,int n,int k){
  fragment<matrix_a,16,16,16,half,row_major> fa; fragment<matrix_b,16,16,16,half,col_major> fb; fragment<accumulator,16,16,16,float> acc;
  fill_fragment(acc,0.f);
  #pragma unroll 1
  for(int i=0;i<k;i+=16){ load_matrix_sync(fa,a+i,k); load_matrix_sync(fb,b+i,k); mma_sync(acc,fa,fb,acc);} 
  for(int i=0;i<acc.num_elements;i++) acc.x[i]*=0.5f;
  store_matrix_sync(c,acc,n,mem_row_major);
}
extern "C" __global__ void wide(const half*a,const half*b,half*c){
  __shared__ half s[32*16];
  fragment<matrix_a,32,8,16,half,col_major> fa; fragment<matrix_b,32,8,16,half,row_major> fb; fragment<accumulator,32,8,16,half> acc;
  for(int i=threadIdx.x;i<512;i+=32) s[i]=a[i]; __syncwarp();
  load_matrix_sync(acc,c,8,mem_row_major); load_matrix_sync(fa,s,32); load_matrix_sync(fb,b,8); mma_sync(acc,fa,fb,acc); store_matrix_sync(c,acc,32,mem_col_major);
}
extern "C" __global__ void bytes(const signed char*a,const signed char*b,int*c){
  fragment<matrix_a,8,32,16,signed char,row_major> fa; fragment<matrix_b,8,32,16,signed char,col_major> fb; fragment<accumulator,8,32,16,int> acc;
  fill_fragment(acc,1); load_matrix_sync(fa,a,16); load_matrix_sync(fb,b,16); mma_sync(acc,fa,fb,acc); store_matrix_sync(c,acc,32,mem_row_major);
}
extern "C" __global__ void tf(const float*a,const float*b,float*c){
  fragment<matrix_a,16,16,8,precision::tf32,row_major> fa; fragment<matrix_b,16,16,8,precision::tf32,col_major> fb; fragment<accumulator,16,16,8,float> acc;
  fill_fragment(acc,0.f); load_matrix_sync(fa,a,8); load_matrix_sync(fb,b,8); for(int i=0;i<fa.num_elements;i++) fa.x[i]=__float_to_tf32(fa.x[i]); mma_sync(acc,fa,fb,acc); store_matrix_sync(c,acc,16,mem_row_major);
}
extern "C" __global__ void dbl(const double*a,const double*b,double*c){
  fragment<matrix_a,8,8,4,double,row_major> fa; fragment<matrix_b,8,8,4,double,col_major> fb; fragment<accumulator,8,8,4,double> acc;
  fill_fragment(acc,0.5); load_matrix_sync(fa,a,4); load_matrix_sync(fb,b,4); mma_sync(acc,fa,fb,acc); store_matrix_sync(c,acc,8,mem_row_major);
}
extern "C" __global__ void nib(const void*a,const void*b,int*c){
  fragment<matrix_a,8,8,32,experimental::precision::s4,row_major> fa; fragment<matrix_b,8,8,32,experimental::precision::s4,col_major> fb; fragment<accumulator,8,8,32,int> acc;
  fill_fragment(acc,0); load_matrix_sync(fa,a,32); load_matrix_sync(fb,b,32); mma_sync(acc,fa,fb,acc); store_matrix_sync(c,acc,8,mem_row_major);
}
extern "C" __global__ void bit(const void*a,const void*b,int*c){
  fragment<matrix_a,8,8,128,experimental::precision::b1,row_major> fa; fragment<matrix_b,8,8,128,experimental::precision::b1,col_major> fb; fragment<accumulator,8,8,128,int> acc;
  fill_fragment(acc,0); load_matrix_sync(fa,a,128); load_matrix_sync(fb,b,128); bmma_sync(acc,fa,fb,acc); store_matrix_sync(c,acc,8,mem_row_major);
}
